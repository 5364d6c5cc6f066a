"""Gateways that share one inbox in a real Redis: who answers what, in which order, and what goes on without one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from fakes.line import Line, an_office
from fakes.redis_server import RedisServer, serving_redis
from fakes.toys import Workshop

from bub.base.redis.address import StoreAddress
from bub.base.redis.connection import StoreError
from bub.base.redis.keys import partition_of
from bub.channels import ChannelManager, ChannelMessage
from bub.inbox.dispatcher import MOST_INTERRUPTIONS
from bub.inbox.shared.redis.inbox import RedisInbox
from bub.inbox.shared.share import ROLES
from bub.inbox.shared.sharing import AWAY_PAUSE, count_anew
from bub.inbox.shared.store import Worker
from bub.inbox.store import Arrival, MailboxError, Received

pytestmark = pytest.mark.anyio


class Gateway:
    """A manager on the shared store, which its test ends in order, or lets fall."""

    def __init__(self, manager: ChannelManager, line: Line, tasks: trio.Nursery) -> None:
        self.manager = manager
        self.line = line
        self.tasks = tasks

    @property
    def partitions(self) -> list[int]:
        assert self.manager.sharing is not None
        return list(self.manager.sharing.describe_state()["partitions"])

    @property
    def runs_line(self) -> bool:
        return self.manager.states["line"] == "running"


@asynccontextmanager
async def gateway(
    folder: Path, monkeypatch: pytest.MonkeyPatch, address: str, name: str, roles: tuple[str, ...] = ROLES, **hooks: Any
) -> AsyncIterator[Gateway]:
    folder.mkdir()  # noqa: ASYNC240 (it is there at once)
    line = Line(needs_debounce=False)
    framework = an_office(Workshop(folder, monkeypatch), line, **hooks)
    inbox = RedisInbox(StoreAddress.parse(f"{address}?partitions=4&lease=600ms"), "office")
    async with framework.running(), trio.open_nursery() as tasks:
        manager = ChannelManager(framework, mailbox=inbox, worker=Worker(name, roles=roles))
        await tasks.start(manager.run)
        yield Gateway(manager, line, tasks)
        manager.drain()


async def until(what: Any) -> None:
    with trio.fail_after(20):
        while not what():  # noqa: ASYNC110 (it happens in another process)
            await trio.sleep(0.01)


async def test_two_gateways_part_the_work_and_one_goes_on_alone(
    redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(gateway(tmp_path / "1", monkeypatch, redis.address, "first"))
        await until(lambda: first.partitions == [0, 1, 2, 3] and first.runs_line)
        async with gateway(tmp_path / "2", monkeypatch, redis.address, "second") as second:
            await until(lambda: len(first.partitions) == 2 and len(second.partitions) == 2)
            assert not second.runs_line
            for chat in range(8):
                await first.line.say(f"hello {chat}", chat_id=str(chat))
            await until(lambda: len(first.line.sent) == 8)
            assert sorted(first.line.said) == [f"you said hello {chat}" for chat in range(8)]
            first.tasks.cancel_scope.cancel()  # it is gone without a word: its leases end by themselves
            await until(lambda: second.partitions == [0, 1, 2, 3] and second.runs_line)
            await second.line.say("and now", chat_id="1")
            await until(lambda: second.line.said == ["you said and now"])


async def test_a_session_of_two_chats_is_answered_in_one_place_one_after_another(
    redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chats are in other partitions than the session, so its messages move there, and the turn goes on there."""
    under_way, most, found = 0, 0, []

    async def run_model(prompt: str) -> str:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await trio.sleep(0.02)
        under_way -= 1
        return f"re {prompt}"

    def resolve_session(message: Any) -> str:
        found.append(message["content"])
        return "everybody"

    chats = [str(number) for number in range(6)]
    assert {partition_of(f"line:{chat}", 4) for chat in chats} != {partition_of("everybody", 4)}
    hooks = {"run_model": run_model, "resolve_session": resolve_session}
    async with (
        gateway(tmp_path / "1", monkeypatch, redis.address, "first", **hooks) as first,
        gateway(tmp_path / "2", monkeypatch, redis.address, "second", **hooks) as second,
    ):
        await until(lambda: len(first.partitions) == len(second.partitions) == 2)
        line = first.line if first.runs_line else second.line
        for number in range(12):
            await line.say(f"{number}", chat_id=chats[number % 6])
        await until(lambda: len(line.sent) == 12)
        assert sorted(line.said, key=lambda text: int(text.split()[1])) == [f"re {number}" for number in range(12)]
        assert most == 1
        assert sorted(found, key=int) == [str(number) for number in range(12)]  # once each


async def test_a_turn_whose_store_is_away_is_taken_again_without_an_apology(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    with serving_redis(appendonly=True, appendfsync="always") as server:

        async def run_model(prompt: str) -> str:
            begun.append(prompt)
            if len(begun) == 1:
                server.kill()
                with pytest.raises(MailboxError):
                    await one.manager._mailbox.own_schedules()
                tasks.start_soon(come_back)
                raise MailboxError("the inbox cannot be reached") from StoreError("it is away", is_away=True)
            return f"re {prompt}"

        async def come_back() -> None:
            await trio.sleep(0.3)
            server.restart()

        async with (
            trio.open_nursery() as tasks,
            gateway(tmp_path / "1", monkeypatch, server.address, "one", run_model=run_model) as one,
        ):
            await until(lambda: len(one.partitions) == 4 and one.runs_line)
            await one.line.say("hello")
            await until(lambda: one.line.sent)
            assert one.line.said == ["re hello"]
        assert begun == ["hello", "hello"]


async def test_what_waits_behind_a_turn_whose_store_was_away_does_not_overtake_it(
    redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    async def run_model(prompt: str) -> str:
        begun.append(prompt)
        if len(begun) == 1:
            await until(lambda: [len(waiting) for waiting in one.manager._dispatcher._let_in.values()] == [2])
            raise MailboxError("the inbox cannot be reached") from StoreError("it is away", is_away=True)
        return f"re {prompt}"

    async with gateway(tmp_path / "1", monkeypatch, redis.address, "one", run_model=run_model) as one:
        await until(lambda: len(one.partitions) == 4 and one.runs_line)
        await one.line.say("first")
        await until(lambda: begun)
        await one.line.say("waits for its session")
        await until(lambda: not one.manager.turns)
        await one.line.say("comes meanwhile")
        await until(lambda: len(one.line.sent) == 3)
        assert one.line.said == ["re first", "re waits for its session", "re comes meanwhile"]
    assert begun == ["first", "first", "waits for its session", "comes meanwhile"]


async def test_a_turn_whose_partition_was_lost_and_taken_anew_is_taken_again_once(
    redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    async def run_model(prompt: str) -> str:
        begun.append(prompt)
        if len(begun) == 1:
            inbox: Any = one.manager._mailbox
            names = [inbox.keys.of_lease(f"partition:{number}") for number in range(4)]
            await inbox.redis.ask(inbox.redis.client.delete(names))
            raise MailboxError("the inbox cannot be reached") from StoreError("it is away", is_away=True)
        await trio.sleep(2 * AWAY_PAUSE)  # until what stepped aside is looked for
        return f"re {prompt}"

    async with gateway(tmp_path / "1", monkeypatch, redis.address, "one", run_model=run_model) as one:
        await until(lambda: len(one.partitions) == 4 and one.runs_line)
        await one.line.say("hello")
        await until(lambda: one.line.sent)
        assert one.line.said == ["re hello"]
    assert begun == ["hello", "hello"]


def moved(number: int, first: int, count: int, attempts: int = 0) -> Received:
    return Received(number, ChannelMessage("line", "1", "?"), attempts, 0.0, arrival=Arrival("s", b"", first, count))


def test_what_moved_as_one_goes_on_without_those_of_it_that_were_set_aside() -> None:
    alone = Received(9, ChannelMessage("line", "1", "?"), 0, 0.0)
    found = count_anew([moved(1, 1, 3), moved(2, 1, 3, MOST_INTERRUPTIONS), moved(4, 4, 2), moved(5, 4, 2), alone])
    assert [(one.id, one.arrival and one.arrival.number) for one in found] == [
        (1, 1),
        (2, 3),
        (4, 2),
        (5, 2),
        (9, None),
    ]
