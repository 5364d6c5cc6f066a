"""What is opened is closed in reverse order, whatever fails, and in bounded time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
import trio
from loguru import logger
from trio.testing import MockClock, wait_all_tasks_blocked

from bub.base.scopes import CLOSING_PATIENCE, Scope, as_manager

pytestmark = pytest.mark.anyio


@pytest.fixture
def log() -> Iterator[list[str]]:
    """The lines that are logged during a test."""
    lines: list[str] = []
    handler = logger.add(lines.append, format="{message}", level="INFO")
    yield lines
    logger.remove(handler)


@contextmanager
def plain(name: str, seen: list[str], failure: Exception | None = None) -> Iterator[str]:
    seen.append(f"+{name}")
    yield name
    seen.append(f"-{name}")
    if failure is not None:
        raise failure


@asynccontextmanager
async def waiting(name: str, seen: list[str], seconds: float = 0, failure: Exception | None = None) -> Any:
    seen.append(f"+{name}")
    yield name
    await trio.sleep(seconds)
    seen.append(f"-{name}")
    if failure is not None:
        raise failure


class TestClosing:
    async def test_entering_gives_what_the_context_manager_gives(self) -> None:
        scope = Scope()
        assert await scope.enter(plain("sync", [])) == "sync"
        assert await scope.enter(waiting("async", [])) == "async"
        await scope.close()

    async def test_resources_close_in_reverse_order(self) -> None:
        seen: list[str] = []
        scope = Scope()
        for manager in (plain("a", seen), waiting("b", seen), plain("c", seen)):
            await scope.enter(manager)
        await scope.close()
        assert seen == ["+a", "+b", "+c", "-c", "-b", "-a"]

    async def test_a_failure_while_closing_is_logged_and_the_others_still_close(self, log: list[str]) -> None:
        seen: list[str] = []
        scope = Scope()
        await scope.enter(plain("a", seen))
        await scope.enter(waiting("b", seen, failure=OSError("disk full")))
        await scope.enter(plain("c", seen, failure=ValueError("c")))
        await scope.close()
        assert seen[3:] == ["-c", "-b", "-a"]
        assert ["disk full" in line or "ValueError: c" in line for line in log] == [True, True]
        assert all(line.startswith("resource.close_failed") for line in log)

    async def test_a_resource_that_did_not_open_is_not_closed(self) -> None:
        seen: list[str] = []

        @contextmanager
        def broken() -> Iterator[None]:
            raise OSError("no such file")
            yield

        scope = Scope()
        await scope.enter(plain("a", seen))
        with pytest.raises(OSError, match="no such file"):
            await scope.enter(broken())
        await scope.close()
        assert seen == ["+a", "-a"]

    async def test_closing_twice_closes_once(self) -> None:
        seen: list[str] = []
        scope = Scope()
        await scope.enter(plain("a", seen))
        await scope.close()
        await scope.close()
        assert seen == ["+a", "-a"]

    async def test_a_cancelled_turn_still_closes_what_has_to_be_waited_for(self) -> None:
        seen: list[str] = []
        scope = Scope()
        await scope.enter(waiting("a", seen))
        with trio.CancelScope() as cancelled:
            cancelled.cancel()
            await scope.close()
        assert seen == ["+a", "-a"]

    def test_a_resource_that_hangs_is_given_up_and_the_others_close(self, log: list[str]) -> None:
        seen: list[str] = []

        async def scenario() -> None:
            scope = Scope()
            await scope.enter(plain("a", seen))
            await scope.enter(waiting("hangs", seen, seconds=float("inf")))
            began = trio.current_time()
            await scope.close()
            assert trio.current_time() - began == pytest.approx(CLOSING_PATIENCE)

        trio.run(scenario, clock=MockClock(autojump_threshold=0))
        assert seen == ["+a", "+hangs", "-a"]
        assert len(log) == 1 and log[0].startswith("resource.close_timed_out")


class TestSharing:
    async def test_whoever_asks_first_opens_it_and_everybody_gets_the_same(self) -> None:
        seen: list[str] = []

        @asynccontextmanager
        async def client() -> AsyncIterator[object]:
            seen.append("open")
            await trio.lowlevel.checkpoint()
            yield object()
            seen.append("close")

        scope = Scope()
        got: list[object] = []

        async def ask() -> None:
            got.append(await scope.shared(client))

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(ask)
        assert len(got) == 5 and len(set(map(id, got))) == 1
        assert seen == ["open"]
        await scope.close()
        assert seen == ["open", "close"]

    async def test_after_a_failure_to_open_the_next_one_tries_again(self) -> None:
        attempts: list[int] = []

        @asynccontextmanager
        async def flaky() -> AsyncIterator[str]:
            attempts.append(len(attempts))
            if len(attempts) == 1:
                raise OSError("not yet")
            yield "there"

        scope = Scope()
        with pytest.raises(OSError, match="not yet"):
            await scope.shared(flaky)
        assert await scope.shared(flaky) == "there"
        await scope.close()

    async def test_one_that_is_cancelled_while_opening_leaves_the_others_a_chance(self) -> None:
        opens: list[str] = []
        gate = trio.Event()

        @asynccontextmanager
        async def slow() -> AsyncIterator[str]:
            opens.append("started")
            await gate.wait()
            yield "there"

        scope = Scope()
        first = trio.CancelScope()
        got: list[str] = []

        async def ask(cancellable: trio.CancelScope) -> None:
            with cancellable:
                got.append(await scope.shared(slow))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, first)
            await wait_all_tasks_blocked()
            nursery.start_soon(ask, trio.CancelScope())
            await wait_all_tasks_blocked()
            first.cancel()
            await wait_all_tasks_blocked()
            gate.set()
        assert (got, opens) == (["there"], ["started", "started"])
        await scope.close()

    async def test_what_was_shared_is_opened_anew_after_closing(self) -> None:
        seen: list[str] = []

        def factory() -> Any:
            return waiting("shared", seen)

        scope = Scope()
        await scope.shared(factory)
        await scope.close()
        await scope.shared(factory)
        await scope.close()
        assert seen == ["+shared", "-shared"] * 2


class TestWhatBecomesAResource:
    @pytest.mark.parametrize("value", [None, object(), "text", ["list"], {"a": 1}, 7])
    def test_a_plain_value_is_none(self, value: object) -> None:
        assert as_manager(value) is None

    def test_a_context_manager_is_itself(self) -> None:
        sync, not_sync = plain("a", []), waiting("b", [])
        assert as_manager(sync) is sync
        assert as_manager(not_sync) is not_sync

    async def test_an_iterator_yields_its_value_and_is_run_to_its_end(self) -> None:
        seen: list[str] = []

        def store() -> Iterator[str]:
            yield "store"
            seen.append("closed")

        scope = Scope()
        assert await scope.enter(as_manager(store())) == "store"
        assert seen == []
        await scope.close()
        assert seen == ["closed"]

    async def test_an_async_iterator_yields_its_value_and_is_run_to_its_end(self) -> None:
        seen: list[str] = []

        async def store() -> AsyncIterator[str]:
            yield "store"
            await trio.lowlevel.checkpoint()
            seen.append("closed")

        scope = Scope()
        assert await scope.enter(as_manager(store())) == "store"
        assert seen == []
        await scope.close()
        assert seen == ["closed"]

    async def test_an_iterator_that_is_no_generator_will_do(self) -> None:
        scope = Scope()
        assert await scope.enter(as_manager(iter(["store"]))) == "store"
        await scope.close()
