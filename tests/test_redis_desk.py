"""`bub inbox` and `bub schedules` on an inbox that several gateways share."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from fakes.redis_server import RedisServer

from bub.approval import OPERATOR, Approval, NotedCall
from bub.base.redis.address import StoreAddress
from bub.base.redis.settings import agent_of
from bub.channels import ChannelMessage
from bub.cli.exits import exit_code
from bub.cli.root import command_line
from bub.inbox.questions import NO, YES, AskedQuestion
from bub.inbox.schedules.firing import Firing
from bub.inbox.schedules.own import OwnSchedule
from bub.inbox.shared.redis.inbox import RedisInbox

CALL = NotedCall("c1", "bash", "{}", False)


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What `bub ARGUMENTS` prints on standard output, `bub inbox` if they name none."""

    def run(*arguments: str) -> str:
        capsys.readouterr()
        command = arguments if arguments[0] == "schedules" else ("inbox", *arguments)
        assert command_line([*command]) == 0
        return capsys.readouterr().out

    return run


Work = Callable[[Callable[[RedisInbox], Awaitable[Any]]], Any]


@pytest.fixture
def work(redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Work:
    """Do something with the inbox as the gateway that has all of it, and be gone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BUB_GATEWAY_STORE", redis.address)
    names = ("partition:0", "partition:1", "channel:line")

    def work(do: Callable[[RedisInbox], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            inbox = RedisInbox(StoreAddress.parse(f"{redis.address}?partitions=2"), agent_of(tmp_path))
            await inbox.open()
            try:
                for name in names:
                    lease = await inbox.leases.take(name, "one")
                    assert lease is not None
                    await (inbox.claim_channel if name == "channel:line" else inbox.claim_partition)(lease)
                return await do(inbox)
            finally:
                for name in names:
                    await inbox.redis.ask(inbox.redis.client.delete([inbox.keys.of_lease(name)]))
                await inbox.close()

        return trio.run(run)

    return work


def test_what_was_set_aside_is_listed_tried_again_and_dropped(work: Work, printed: Callable[..., str]) -> None:
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


def test_a_question_is_answered_from_the_command_line_once(
    work: Work, printed: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fill(inbox: RedisInbox) -> list[str]:
        (one, two) = [await inbox.receive(ChannelMessage("line", chat, "tidy")) for chat in ("1", "2")]
        assert one
        assert two
        await inbox.begin([one.id, two.id])
        return [(await inbox.ask(question(int(each.id)))).id for each in (one, two)]

    def question(turn: int) -> AskedQuestion:
        approval = Approval("line:1", "bash", "s", "a", "default", "r", until=time.time() + 600)
        return AskedQuestion(approval, turn, "c1", "  cmd: rm -r build", "line", "1", time.time())

    yes, no = work(fill)
    assert {one["id"] for one in json.loads(printed("list", "--json"))} == {yes, no}
    assert "rm -r build" in printed("list")
    monkeypatch.setattr("bub.cli.inbox.require_person", lambda: None)
    monkeypatch.setattr("bub.cli.inbox.can_ask", lambda: True)
    monkeypatch.setattr("bub.cli.inbox.confirm", lambda _: True)
    printed("approve", yes)
    printed("deny", no)
    assert printed("list") == ""
    assert exit_code(lambda: command_line(["inbox", "deny", yes])) == 1  # it is answered by now

    async def look(inbox: RedisInbox) -> list[tuple[str, str]]:
        found = [await inbox.find_question(name) for name in (yes, no)]
        return [(one.state, one.by) for one in found if one is not None]

    assert work(look) == [(YES, OPERATOR), (NO, OPERATOR)]


def test_schedules_are_shown_run_now_and_removed(work: Work, printed: Callable[..., str], tmp_path: Path) -> None:
    file = "schedules: {morning: {cron: '0 8 * * *', timezone: UTC, session: 'line:7', message: good morning}}"
    (tmp_path / "pipelines.yaml").write_text(f"version: 1\nextends: bub:default\n{file}\n", encoding="utf-8")
    own = OwnSchedule("", "30 9 1 * *", "pay", "line:8", "UTC", "default", session_id="line:8", sender_id="4711")

    async def fill(inbox: RedisInbox) -> None:
        await inbox.follow("morning", "0 8 * * * UTC", 0.0)
        good = ChannelMessage("line", "7", "good morning")
        assert await inbox.fire(Firing("morning", 28_800.0), good, until=28_801.0, missed=2)
        await inbox.add_schedule(own, 10)

    work(fill)
    morning, pay = json.loads(printed("schedules", "--json"))["schedules"]
    assert (morning["last"], morning["missed"], morning["own"]) == ("1970-01-01T08:00+00:00", 2, False)
    assert (pay["name"], pay["own"], pay["session"]) == ("1", True, "line:8")
    assert printed("schedules", "run", "1") == "1 fires in line:8\n"
    assert printed("schedules", "remove", "1") == "1 is removed\n"

    async def look(inbox: RedisInbox) -> None:
        assert await inbox.own_schedules() == []
        waiting = (await inbox.claim(["line"])).messages
        assert {one.message.content for one in waiting} == {"good morning", "pay"}
        (now,) = [one for one in waiting if one.message.content == "pay"]
        assert now.firing is not None
        assert (now.firing.schedule, now.firing.is_own) == ("1", True)
        (followed,) = await inbox.followed()
        assert followed.since == 28_801.0  # what a person lets fire decides nothing about the schedule's own times

    work(look)
