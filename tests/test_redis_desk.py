"""`bub inbox` on an inbox that several gateways share: what was set aside is listed, tried again, and dropped."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from fakes.redis_server import RedisServer

from bub.approval import NotedCall
from bub.base.redis.address import StoreAddress
from bub.base.redis.settings import agent_of
from bub.channels import ChannelMessage
from bub.cli.root import command_line
from bub.inbox.shared.redis.inbox import RedisInbox

CALL = NotedCall("c1", "bash", "{}", False)


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What `bub inbox ARGUMENTS` prints on standard output."""

    def run(*arguments: str) -> str:
        capsys.readouterr()
        assert command_line(["inbox", *arguments]) == 0
        return capsys.readouterr().out

    return run


def test_what_was_set_aside_is_listed_tried_again_and_dropped(
    redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: Callable[..., str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BUB_GATEWAY_STORE", redis.address)

    def work(do: Callable[[RedisInbox], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            inbox = RedisInbox(StoreAddress.parse(f"{redis.address}?partitions=2"), agent_of(tmp_path))
            await inbox.open()
            try:
                for name in ("partition:0", "partition:1", "channel:line"):
                    lease = await inbox.leases.take(name, "one")
                    assert lease is not None
                    await (inbox.claim_channel if name == "channel:line" else inbox.claim_partition)(lease)
                return await do(inbox)
            finally:
                for name in ("partition:0", "partition:1", "channel:line"):
                    await inbox.redis.ask(inbox.redis.client.delete([inbox.keys.of_lease(name)]))
                await inbox.close()

        return trio.run(run)

    async def fill(inbox: RedisInbox) -> None:
        one, two, three = [await inbox.receive(ChannelMessage("line", "1", text)) for text in ("a", "b", "c")]
        assert one and two and three
        await inbox.begin([one.id, two.id])
        await inbox.begin_call([one.id], CALL)
        await inbox.set_aside([one.id], "the process ended three times", [])
        await inbox.set_aside([two.id], "no", [])
        (reply,) = await inbox.finish([three.id], [ChannelMessage("line", "1", "lost")])
        await inbox.claim(["line"])
        await inbox.undeliverable(reply.id, "blocked")
        assert await inbox.receive(ChannelMessage("line", "2", "waits"))

    work(fill)
    found = json.loads(printed("list", "--json", "--all"))
    told = {one["message"]["content"]: (one["kind"], one["reason"], one["attempts"]) for one in found}
    assert told == {
        "a": ("message", "the process ended three times", 1),
        "b": ("message", "no", 1),
        "waits": ("message", None, 0),
        "lost": ("reply", "blocked", 0),
    }
    names = {one["message"]["content"]: one["id"] for one in found}
    printed("drop", "--yes", names["b"])
    printed("retry", names["a"], names["lost"])
    assert printed("list") == ""

    async def look(inbox: RedisInbox) -> None:
        claim = await inbox.claim(["line"])
        assert {one.message.content for one in claim.messages} == {"waits", "a"}
        assert [one.message.content for one in claim.replies] == ["lost"]
        (again,) = [one for one in claim.messages if one.message.content == "a"]
        assert again.attempts == 0
        assert [call.call_id for call in await inbox.begin([again.id])] == ["c1"]  # what had begun is still known

    work(look)
