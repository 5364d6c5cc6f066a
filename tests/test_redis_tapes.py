"""Tapes in a real Redis: fenced, written once whatever is lost on the way, and whole when the server was killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import trio
from fakes.command_line import SOURCES
from fakes.redis_server import RedisServer, serving_redis

from bub.agent.costs.spending import DailySpending
from bub.base.installing.extras import install_command
from bub.base.redis.address import StoreAddress
from bub.base.redis.connection import RedisConnection, StoreError
from bub.base.redis.keys import Keys
from bub.base.redis.leases import Lease, current_lease
from bub.base.redis.redis_leases import RedisLeases
from bub.errors import TapeError
from bub.tape import Tape, TapeEntry, TapeQuery
from bub.tape.opening import open_tapes
from bub.tape.settings import session_settings, set_session_setting
from bub.tape.shared import late
from bub.tape.shared.store import RedisTapeStore
from bub.tape.store import FencedTapeError

pytestmark = pytest.mark.anyio

KEYS = Keys("bub", "alone")


def said(text: str) -> TapeEntry:
    return TapeEntry.message({"role": "user", "content": text})


def texts(found: list[TapeEntry]) -> list[str]:
    return [str(entry.payload.get("content") or entry.payload.get("name")) for entry in found]


@asynccontextmanager
async def tapes(server: RedisServer, at: str = "") -> AsyncIterator[RedisTapeStore]:
    async with late.open_redis_tapes(StoreAddress.parse(at or server.address), "alone") as store:
        yield store


@asynccontextmanager
async def lease_of(server: RedisServer, name: str, worker: str) -> AsyncIterator[Lease]:
    redis = RedisConnection(StoreAddress.parse(server.address))
    await redis.open()
    lease = await RedisLeases(redis, KEYS, seconds=30).take(name, worker)
    assert lease is not None
    try:
        yield lease
    finally:
        await redis.close()


async def test_who_lost_a_session_writes_nothing_to_its_tape(redis: RedisServer) -> None:
    async with tapes(redis) as store, lease_of(redis, "partition:1", "one") as lease:
        token = current_lease.set(lease)
        try:
            tape = Tape("t", store)
            await tape.append(said("mine"))
            await set_session_setting(tape, "model", "a:b")
            redis.ask("DEL", KEYS.of_lease(lease.name))
            async with lease_of(redis, lease.name, "two"):
                for write in (
                    lambda: tape.append(said("a zombie's")),
                    lambda: store.extend("t", [said("a zombie's")] * 3_000),
                    lambda: tape.reset(),
                    lambda: tape.forget(),
                    lambda: set_session_setting(tape, "model", "c:d"),
                ):
                    with pytest.raises(FencedTapeError, match="another gateway"):
                        await write()
            assert texts(await tape.fetch(tape.query())) == ["mine"]
            assert await session_settings(tape) == {"model": "a:b"}
        finally:
            current_lease.reset(token)
        await tape.append(said("a command's"))  # who has no turn needs no lease
        assert texts(await tape.fetch(tape.query())) == ["mine", "a command's"]


async def test_what_a_turn_writes_is_one_command(redis: RedisServer) -> None:
    async with tapes(redis) as store:
        await store.extend("t", [TapeEntry.anchor("a")])
        redis.ask("CONFIG", "RESETSTAT")
        await store.extend("t", [TapeEntry.anchor("b"), *[said(str(number)) for number in range(20)]])
        assert _calls(redis) == 1
        assert len(await store.fetch_all(TapeQuery("t").last_anchor())) == 20
        assert _calls(redis) == 2


async def test_tapes_that_nobody_asked_for_are_closed_at_once(redis: RedisServer) -> None:
    began = trio.current_time()
    async with tapes(redis):
        pass
    assert trio.current_time() - began < 1


def _calls(redis: RedisServer) -> int:
    stats = dict(line.split(":", 1) for line in redis.ask("INFO", "commandstats").decode().split("\r\n") if ":" in line)
    return int(stats["cmdstat_evalsha"].split("=", 1)[1].split(",")[0])


TAPES: dict[str, list[TapeEntry]] = {
    "nothing": [],
    "no anchor": [said("one"), TapeEntry.event("e"), said("two")],
    "one anchor, first": [TapeEntry.anchor("a"), said("one"), TapeEntry.event("e"), TapeEntry.system("s"), said("two")],
    "two anchors": [
        said("zero"),
        TapeEntry.anchor("a"),
        said("one"),
        TapeEntry.anchor("b"),
        said("two"),
        said("three"),
    ],
    "an anchor, last": [said("one"), TapeEntry.event("e"), TapeEntry.anchor("a")],
    "more than a slice": [TapeEntry.anchor("a"), *[said(str(number)) for number in range(600)]],
}

KINDS: tuple[tuple[str, ...], ...] = ((), ("anchor",), ("message",), ("event", "anchor"), ("system",))


@asynccontextmanager
async def turn_under(lease: Lease) -> AsyncIterator[None]:
    token = current_lease.set(lease)
    try:
        yield
    finally:
        current_lease.reset(token)


def ask_all() -> Iterator[TapeQuery]:
    """What turns ask, tape by tape."""
    for name, kinds in product(TAPES, KINDS):
        for stretch in (TapeQuery(name), TapeQuery(name).last_anchor(), TapeQuery(name).after_anchor("a")):
            whole = stretch.kinds(*kinds)
            yield from (whole, whole.newest(), whole.limit(1), whole.newest().limit(1), whole.newest().limit(2))


async def answers(store: RedisTapeStore) -> list[list[int] | str]:
    found: list[list[int] | str] = []
    for query in ask_all():
        try:
            found.append([entry.id for entry in await store.fetch_all(query)])
        except TapeError as error:
            found.append(str(error))
    return found


async def test_a_turn_is_told_what_everybody_is_told(redis: RedisServer) -> None:
    async with tapes(redis) as store, lease_of(redis, "partition:1", "one") as lease:
        for name, entries in TAPES.items():
            await store.extend(name, entries)
        expected = await answers(store)
        async with turn_under(lease):
            assert await answers(store) == expected


async def test_what_a_turn_asks_of_its_tape_is_read_once_until_somebody_writes(redis: RedisServer) -> None:
    async with tapes(redis) as store, lease_of(redis, "partition:1", "one") as lease, turn_under(lease):
        tape = Tape("t", store)
        await tape.ensure_bootstrap_anchor("s")
        for text in ("one", "two"):
            await tape.append(said(text))
            redis.ask("CONFIG", "RESETSTAT")
            await tape.ensure_bootstrap_anchor("s")
            assert (await tape.messages())[-1]["content"] == text
            assert await tape.fetch(tape.query().last_anchor().kinds("system").newest().limit(1)) == []
            assert texts(await tape.anchors(most=1)) == ["session/start"]
            assert _calls(redis) == 1


async def test_what_turns_ask_for_beside_their_tapes_is_read_along_with_them(redis: RedisServer) -> None:
    async with tapes(redis) as store, lease_of(redis, "partition:1", "one") as lease, turn_under(lease):
        for name in ("first", "second"):
            tape = Tape(name, store)
            await set_session_setting(tape, "model", name)
            await tape.append(said("hello"))
            redis.ask("CONFIG", "RESETSTAT")
            await tape.ensure_bootstrap_anchor()
            assert _calls(redis) == (1 if name == "first" else 2)
            assert await session_settings(tape) == {"model": name}
            assert _calls(redis) == 2
            await set_session_setting(tape, "model", "another")
            assert await session_settings(tape) == {"model": "another"}


async def test_what_a_turn_has_read_is_known_for_a_moment_and_to_no_other_lease(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with tapes(redis) as store, tapes(redis) as other, lease_of(redis, "partition:1", "one") as lease:

        async def read(name: str, lease: Lease) -> list[str]:
            async with turn_under(lease):
                return texts(await store.fetch_all(TapeQuery(name)))

        for name in ("t", "files__sidecar__marks"):
            await other.append(name, said("one"))
            assert await read(name, lease) == ["one"]
            await other.append(name, said("two"))
        assert await read("t", lease) == ["one"]  # the command that wrote it came beside the turn
        assert await read("files__sidecar__marks", lease) == ["one", "two"]  # it is for all sessions
        assert await read("t", Lease(lease.name, lease.epoch + 1, "one")) == ["one", "two"]
        await other.append("t", said("three"))
        now = trio.current_time()
        monkeypatch.setattr(trio, "current_time", lambda: now + 60)
        assert await read("t", Lease(lease.name, lease.epoch + 1, "one")) == ["one", "two", "three"]


async def test_what_was_read_while_somebody_here_wrote_is_not_known(redis: RedisServer) -> None:
    async with tapes(redis) as store, lease_of(redis, "partition:1", "one") as lease, turn_under(lease):
        await store.append("t", said("one"))
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(store.fetch_all, TapeQuery("t"))
                nursery.start_soon(store.append, "t", said("more"))
        assert len(await store.fetch_all(TapeQuery("t"))) == 11


class Losing(RedisConnection):
    """Loses some answers: what was asked for is done, and nobody hears of it."""

    lost = 0

    async def run(self, script: str, keys: Any, given: Any = ()) -> Any:
        answer = await super().run(script, keys, given)
        if self.lost:
            self.lost -= 1
            raise StoreError("the answer is lost", is_away=True)
        return answer


@pytest.mark.parametrize("many", [2, 2_500])
async def test_a_write_whose_answer_is_lost_is_done_once(redis: RedisServer, many: int) -> None:
    async with tapes(redis) as store:
        store._redis = losing = Losing(StoreAddress.parse(redis.address))
        losing.lost = 3
        await store.extend("t", [said(f"{number}") for number in range(many)])
        assert (losing.lost, [entry.id for entry in await store.fetch_all(TapeQuery("t"))]) == (
            0,
            [*range(1, many + 1)],
        )
        losing.lost = 1
        await store.reset("t")
        await store.extend("t", [said("new")])
        assert texts(await store.fetch_all(TapeQuery("t"))) == ["new"]


async def test_a_large_write_is_there_as_a_whole_or_not_at_all(redis: RedisServer) -> None:
    async with tapes(redis) as store:
        await store.extend("t", [said("before"), *[said(f"{number}") for number in range(5_000)]])
        await store.extend("t", [said("x" * 5_000_000), TapeEntry.anchor("a"), said("y" * 5_000_000)])
        found = await store.fetch_all(TapeQuery("t"))
        assert [entry.id for entry in found] == list(range(1, 5_005))
        assert texts(await store.fetch_all(TapeQuery("t").after_anchor("a"))) == ["y" * 5_000_000]
        assert await store.size() > 10_000_000
        with pytest.raises(TapeError):
            await store.extend("t", [*[said("z")] * 5_000, TapeEntry.event("bad", {"no": object()})])
        assert len(await store.fetch_all(TapeQuery("t"))) == 5_004
        await store.reset("t")
        assert (await store.size(), redis.ask("KEYS", "*staged*"), await store.list_tapes()) == (0, [], [])


async def test_no_name_of_an_anchor_is_taken_for_another(redis: RedisServer) -> None:
    names = ["a", "a:", "a\0", "ä", "1", "", "a:00", "a" * 300]
    async with tapes(redis) as store:
        for name in names:
            await store.extend("t", [TapeEntry.anchor(name), said(f"behind {name!r}")])
        for name in filter(None, names):
            found = await store.fetch_all(TapeQuery("t").after_anchor(name).limit(1))
            assert texts(found) == [f"behind {name!r}"]
        with pytest.raises(TapeError):
            await store.fetch_all(TapeQuery("t").after_anchor("a:0"))


@dataclass(frozen=True)
class Cancelling(TapeQuery):
    """A question that is given up as soon as the first entry is looked at."""

    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    looked_at: list[int] = field(default_factory=list)

    def wants(self, entry: TapeEntry) -> bool:
        self.scope.cancel()
        self.looked_at.append(entry.id)
        return False


async def test_a_search_walks_from_the_newest_entry_and_ends_when_its_turn_does(redis: RedisServer) -> None:
    async with tapes(redis) as store:
        await store.extend("t", [said("hay") for _ in range(6_000)])
        await store.extend("t", [said("a needle")])
        assert [entry.id for entry in await Tape("t", store).search(TapeQuery("t").query("hay"))][:2] == [6_000, 5_999]
        redis.ask("CONFIG", "RESETSTAT")
        assert await store.fetch_all(TapeQuery("t").query("needle").newest().limit(1))
        assert _calls(redis) == 1
        query = Cancelling("t", "hay", backwards=True)
        with query.scope:
            await store.fetch_all(query)
        assert query.scope.cancelled_caught
        assert len(query.looked_at) < 3_000
        assert texts(await store.fetch_all(TapeQuery("t").limit(1))) == ["hay"]  # the connection goes on


async def test_what_a_newer_bub_wrote_is_not_guessed_at(redis: RedisServer) -> None:
    async with tapes(redis) as store:
        await store.append("t", said("one"))
        redis.ask("XADD", KEYS.of_all("tape:t"), "2-0", "v", "99", "e", "?")
        with pytest.raises(TapeError, match="a newer Bub") as caught:
            await store.fetch_all(TapeQuery("t"))
        assert caught.value.reason == "unavailable"


WRITER = """
import sys
import trio
from bub.base.redis.address import StoreAddress
from bub.tape.entry import TapeEntry
from bub.tape.shared.store import open_redis_tapes

async def main(address, name):
    async with open_redis_tapes(StoreAddress.parse(address), "alone") as store:
        for turn in range(100_000):
            await store.extend("t", [TapeEntry.message({"content": f"{name}:{turn}:{part}"}) for part in range(7)])
            print(turn, flush=True)

trio.run(main, *sys.argv[1:])
"""


async def test_a_tape_is_whole_though_the_server_was_killed_in_the_middle_of_writes() -> None:
    with serving_redis(appendonly=True, appendfsync="always") as server:
        writers = [_start(WRITER, server.address, name) for name in "ab"]
        try:
            done = [await _wait_for_line(writer) for writer in writers]
            for _ in range(3):
                await trio.sleep(0.1)
                server.restart()
            done = [await _wait_for_line(writer, beyond=turn + 5) for writer, turn in zip(writers, done, strict=True)]
        finally:
            ends = [_end(writer) for writer in writers]
        async with tapes(server) as store:
            found = await store.fetch_all(TapeQuery("t"))
    assert [entry.id for entry in found] == list(range(1, len(found) + 1))
    for name, last in zip("ab", ends, strict=True):
        wrote = [entry.payload["content"] for entry in found if entry.payload["content"].startswith(name)]
        turns = len(wrote) // 7
        assert wrote == [f"{name}:{turn}:{part}" for turn in range(turns) for part in range(7)]
        assert turns > max(last, 5)


def _start(script: str, *arguments: str) -> subprocess.Popen[bytes]:
    environ = {**os.environ, "PYTHONPATH": SOURCES}
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ
    )


async def _wait_for_line(process: subprocess.Popen[bytes], beyond: int = -1) -> int:
    """Read what a process prints until it is a number above `beyond`."""
    assert process.stdout is not None
    with trio.fail_after(30):
        while True:
            line = await trio.to_thread.run_sync(process.stdout.readline, abandon_on_cancel=True)
            assert line, "it has ended"
            if int(line) > beyond:
                return int(line)


def _end(process: subprocess.Popen[bytes]) -> int:
    """Kill a process and return the last number that it printed."""
    process.kill()
    out, _ = process.communicate(timeout=30)
    return max((int(line) for line in out.split()), default=-1)


SPENDER = """
import sys
import trio
from bub.agent.costs.spending import DailySpending
from bub.base.redis.address import StoreAddress
from bub.tape.shared.store import open_redis_tapes

async def main(address):
    async with open_redis_tapes(StoreAddress.parse(address), "alone") as store:
        print(0, flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)  # all begin together
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(DailySpending(store, "default").add, 3)

trio.run(main, sys.argv[1])
"""


async def test_nothing_is_lost_of_what_four_processes_spend_at_the_same_moment(redis: RedisServer) -> None:
    spenders = [_start(SPENDER, redis.address) for _ in range(4)]
    for spender in spenders:
        await _wait_for_line(spender)
    for spender in spenders:
        assert spender.stdin is not None
        spender.stdin.write(b"\n")
        spender.stdin.flush()
    for spender in spenders:
        await trio.to_thread.run_sync(spender.communicate)
        assert spender.returncode == 0
    async with tapes(redis) as store:
        assert await DailySpending(store, "default").today() == 4 * 50 * 3


async def test_who_lost_a_session_spends_nothing(redis: RedisServer) -> None:
    async with tapes(redis) as store, lease_of(redis, "partition:1", "one") as lease:
        token = current_lease.set(lease)
        try:
            spending = DailySpending(store, "default")
            await spending.add(10)
            redis.ask("DEL", KEYS.of_lease(lease.name))
            with pytest.raises(FencedTapeError):
                await spending.add(10)
            assert await spending.today() == 10
        finally:
            current_lease.reset(token)


async def test_a_memory_that_is_full_costs_nothing_that_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bub.tape.shared.store.TRYING", 0.1)
    with serving_redis(maxmemory="8mb") as server:
        async with tapes(server) as store:
            await store.extend("t", [said("one"), said("two")])
            with pytest.raises(TapeError, match="memory") as caught:
                for _ in range(20):
                    await store.append("t", said("x" * 1_000_000))
            assert caught.value.reason == "unavailable"
            found = await store.fetch_all(TapeQuery("t"))
            assert texts(found[:2]) == ["one", "two"]
            assert {len(text) for text in texts(found[2:])} == {1_000_000}


async def test_a_server_that_is_away_is_told_and_used_again_when_it_is_back(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bub.tape.shared.store.TRYING", 0.1)
    async with tapes(redis) as store:
        await store.append("t", said("one"))
        redis.kill()
        with pytest.raises(TapeError, match="cannot be reached") as caught:
            await store.append("t", said("two"))
        assert caught.value.reason == "unavailable"
        redis.start()
        monkeypatch.setattr("bub.tape.shared.store.TRYING", 10)
        await store.append("t", said("three"))
        assert texts(await store.fetch_all(TapeQuery("t"))) == ["three"]


def test_a_client_that_is_missing_is_told_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "coredis", None)
    for name in [name for name in sys.modules if name.startswith(("bub.tape.shared.store", "bub.base.redis.conn"))]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(TapeError, match="coredis") as caught:
        open_tapes(tmp_path, tmp_path, {"gateway": {"store": "redis://:secret@there"}})
    assert caught.value.help == f"run `{install_command('redis')}`"
    assert "secret" not in str(caught.value)
