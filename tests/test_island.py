"""An island: an asyncio loop in a thread of its own, called from trio. Real loops, real threads, real clocks."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
import trio

import bub
from bub.errors import BubError
from bub.island.faults import IslandBlockedError, IslandError
from bub.island.island import Island
from bub.island.manager import IslandManager
from bub.island.patience import Patience
from bub.island.stream import IslandStream

pytestmark = pytest.mark.anyio

WHO: ContextVar[str] = ContextVar("who", default="nobody")

SHORT = Patience(blocked=0.3, cancelled=0.2, ending=0.2)
PLACE = r".*test_island\.py:\d+"


@pytest.fixture
async def island() -> AsyncIterator[Island]:
    one = Island("slow", SHORT)
    yield one
    await one.close()


def threads_of(plugin: str) -> list[str]:
    return [thread.name for thread in threading.enumerate() if plugin in thread.name]


# Calls.


async def test_a_coroutine_function_runs_in_a_task_of_the_loop(island: Island) -> None:
    async def where(word: str) -> Any:
        await asyncio.sleep(0)
        assert asyncio.current_task() is not None
        return word, threading.current_thread().name

    assert await island.call(where, "hello") == ("hello", "bub island slow")


async def test_a_plain_function_finds_the_loop_running(island: Island) -> None:
    async def later() -> str:
        return "later"

    def begin() -> asyncio.Task[str]:
        return asyncio.create_task(later())

    task = await island.call(begin)
    assert await island.call(lambda: task) == "later"


async def test_an_exception_comes_back_as_it_is(island: Island) -> None:
    error = ValueError("no such channel")

    async def fail() -> None:
        raise error

    with pytest.raises(ValueError, match="no such channel") as caught:
        await island.call(fail)
    assert caught.value is error


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
async def test_what_would_end_the_process_ends_neither_it_nor_the_loop(island: Island, error: BaseException) -> None:
    async def leave() -> None:
        raise error

    async def leave_later() -> None:
        asyncio.get_running_loop().create_task(leave())

    with pytest.raises(type(error)):
        await island.call(leave)
    await island.call(leave_later)
    assert await island.call(lambda: "still here") == "still here"


async def test_context_variables_cross_both_ways(island: Island) -> None:
    async def rename() -> str:
        before = WHO.get()
        WHO.set("the plugin")
        return before

    WHO.set("the turn")
    assert await island.call(rename) == "the turn"
    assert WHO.get() == "the plugin"


async def test_calls_run_side_by_side(island: Island) -> None:
    one, other = asyncio.Event(), asyncio.Event()

    async def meet(mine: asyncio.Event, others: asyncio.Event) -> None:
        mine.set()
        await others.wait()

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(island.call, meet, one, other)
            nursery.start_soon(island.call, meet, other, one)


async def test_a_thread_can_wait_for_a_plain_function(island: Island) -> None:
    WHO.set("the start")
    assert island.call_now(lambda: (WHO.get(), asyncio.get_running_loop().is_running()), patience=5) == (
        "the start",
        True,
    )
    with pytest.raises(IslandBlockedError, match=r"plugin `slow` has blocked .* for 0.05 seconds, at .*test_island"):
        island.call_now(lambda: threading.Event().wait(0.2), patience=0.05)


# Cancelling.


async def test_a_timeout_is_a_cancellation_and_ends_when_the_task_has(island: Island) -> None:
    seen: list[str] = []

    async def wait() -> None:
        token.run_sync_soon(scope.cancel)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            seen.append("cancelled")
            raise

    token = trio.lowlevel.current_trio_token()
    with trio.fail_after(5), trio.CancelScope() as scope:
        await island.call(wait)
    assert scope.cancelled_caught
    assert seen == ["cancelled"]
    assert await island.call(lambda: "the loop runs on") == "the loop runs on"


async def test_a_task_that_ignores_its_cancellation_is_left_to_itself(island: Island, log: list[str]) -> None:
    over = threading.Event()

    async def ignore() -> None:
        token.run_sync_soon(scope.cancel)
        while not over.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    token = trio.lowlevel.current_trio_token()
    with trio.fail_after(5), trio.CancelScope() as scope:
        await island.call(ignore)
    over.set()
    assert scope.cancelled_caught
    assert "island.call_goes_on" in "\n".join(log)
    assert "slow" in "\n".join(log)


async def test_a_call_in_a_cancelled_scope_does_not_begin(island: Island) -> None:
    seen: list[str] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        await island.call(seen.append, "begun")
    assert not seen


async def test_a_plugin_that_cancels_its_own_task_is_a_failure_and_no_cancellation(island: Island) -> None:
    async def cancel() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)

    with pytest.raises(IslandError, match="plugin `slow` cancelled the task"):
        await island.call(cancel)


# Back to trio.


async def test_the_task_that_answers_runs_trio_in_the_very_task_that_waits(island: Island) -> None:
    me = trio.lowlevel.current_task()

    async def in_trio(word: str, *, more: str) -> Any:
        await trio.lowlevel.checkpoint()
        WHO.set("trio")
        return word + more, trio.lowlevel.current_task() is me

    async def ask() -> Any:
        return *await island.back(in_trio)("a", more="b"), WHO.get()

    assert await island.call(ask) == ("ab", True, "trio")


async def test_a_background_task_runs_trio_in_a_task_of_its_own_which_outlives_the_call(island: Island) -> None:
    free, came = trio.Event(), trio.Event()
    words: list[str] = []

    async def in_trio() -> None:
        words.append(WHO.get())
        await free.wait()
        came.set()

    async def leave_behind() -> Any:
        return asyncio.create_task(island.back(in_trio)())  # type: ignore[arg-type]

    WHO.set("the turn")
    await island.call(leave_behind)
    free.set()
    with trio.fail_after(5):
        await came.wait()
    assert words == ["the turn"]


async def test_what_fails_in_trio_is_raised_in_asyncio(island: Island) -> None:
    async def refuse() -> None:
        raise BubError("not here")

    async def ask() -> str:
        try:
            await island.back(refuse)()
        except BubError as error:
            return str(error)
        return ""

    assert await island.call(ask) == "not here"


@pytest.mark.parametrize("in_background", [False, True])
async def test_a_cancelled_asyncio_task_cancels_what_runs_in_trio(island: Island, in_background: bool) -> None:
    seen: list[str] = []

    async def in_trio() -> None:
        try:
            await trio.sleep_forever()
        finally:
            seen.append("trio")

    async def give_up() -> None:
        try:
            async with asyncio.timeout(0.05):
                await (asyncio.create_task(island.back(in_trio)()) if in_background else island.back(in_trio)())  # type: ignore[arg-type]
        except TimeoutError:
            seen.append("asyncio")

    with trio.fail_after(5):
        await island.call(give_up)
    assert seen == ["trio", "asyncio"]


async def test_a_cancelled_trio_task_cancels_asyncio_once(island: Island) -> None:
    seen: list[str] = []

    async def ask() -> None:
        try:
            await island.back(trio.sleep_forever)()
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)  # a second cancellation would end the clean-up here
            seen.append("cleaned up")
            raise

    with trio.fail_after(5), trio.move_on_after(0.05) as limit:
        await island.call(ask)
    assert limit.cancelled_caught
    assert seen == ["cleaned up"]


async def test_in_trio_a_function_that_crosses_back_is_the_function_itself(island: Island) -> None:
    async def word() -> str:
        return "straight"

    assert await island.back(word)() == "straight"
    assert not threads_of("slow")


# Blocked loops.


async def test_a_blocked_loop_fails_its_calls_names_the_place_and_may_come_back(island: Island, log: list[str]) -> None:
    free = threading.Event()

    async def block() -> None:
        free.wait()

    with trio.fail_after(5):
        with pytest.raises(IslandBlockedError, match=r"`slow` has blocked .*, at .*test_island\.py:\d+ in `block`"):
            await island.call(block)
        with pytest.raises(IslandBlockedError):
            await island.call(lambda: "at once")
        assert island.blocked_at is not None
        free.set()
        while island.blocked_at is not None:  # noqa: ASYNC110 (a thread of its own sets it)
            await trio.sleep(0.01)
        assert await island.call(lambda: "again") == "again"
    assert "island.blocked" in "\n".join(log)
    assert "island.runs_again" in "\n".join(log)


async def test_a_blocked_loop_names_the_line_that_blocks_and_who_called_it(island: Island) -> None:
    free = threading.Event()

    def block() -> None:
        free.wait()

    async def dispatch() -> None:  # as the library of a service calls what a plugin has told it to
        block()

    names = rf"at {PLACE} in `block` \(called from {PLACE} in `dispatch`\)"
    with trio.fail_after(5), pytest.raises(IslandBlockedError, match=names):
        await island.call(dispatch)
    free.set()


async def test_a_blocked_loop_names_the_line_of_a_package_whose_name_begins_as_ours(island: Island) -> None:
    free = threading.Event()
    file = f"{Path(bub.__file__).parent}_toy/channel.py"
    toy: dict[str, Any] = {"__name__": "bub_toy.channel", "wait": free.wait}
    exec(compile("def block():\n    wait()", file, "exec"), toy)  # as it lies beside an installed Bub
    with trio.fail_after(5), pytest.raises(IslandBlockedError, match=r"at .*/bub_toy/channel\.py:2 in `block`$"):
        await island.call(toy["block"])
    free.set()


async def test_a_blocked_loop_fails_its_streams_too(island: Island) -> None:
    free = threading.Event()

    async def produce() -> AsyncIterator[int]:
        yield 1
        free.wait()

    stream = IslandStream(island, produce())
    with trio.fail_after(5):
        assert await anext(stream) == 1
        with pytest.raises(IslandBlockedError):
            await anext(stream)
        free.set()


async def test_closing_a_blocked_loop_is_bounded(log: list[str]) -> None:
    island, free = Island("stuck", SHORT), threading.Event()

    async def block() -> None:
        free.wait()

    with trio.fail_after(5):
        with pytest.raises(IslandBlockedError):
            await island.call(block)
        await island.close()
    free.set()
    assert "island.does_not_end" in "\n".join(log)


# Streams.


async def test_what_is_ready_crosses_at_once_and_in_order(island: Island) -> None:
    async def produce() -> AsyncIterator[int]:
        for number in range(500):
            if number == 300:
                await asyncio.sleep(0.01)
            yield number

    stream = IslandStream(island, produce())
    assert [number async for number in stream] == list(range(500))
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_a_stream_that_fails_gives_what_it_had_before(island: Island) -> None:
    async def produce() -> AsyncIterator[str]:
        yield "one"
        raise ValueError("lost")

    stream = IslandStream(island, produce())
    assert await anext(stream) == "one"
    with pytest.raises(ValueError, match="lost"):
        await anext(stream)


@pytest.mark.parametrize("begun", [True, False])
async def test_a_stream_is_closed_in_the_task_that_opened_it(island: Island, begun: bool) -> None:
    tasks: list[Any] = []

    async def produce() -> AsyncIterator[int]:
        tasks.append(asyncio.current_task())
        try:
            async with asyncio.timeout(60):
                yield 1
                await asyncio.Event().wait()
        finally:
            tasks.append(asyncio.current_task())

    stream = IslandStream(island, produce())
    if begun:
        assert await anext(stream) == 1
    await stream.aclose()
    await stream.aclose()
    assert len(set(tasks)) == (1 if begun else 0)


async def test_nobody_produces_far_ahead_of_who_pulls(island: Island) -> None:
    made: list[int] = []

    async def produce() -> AsyncIterator[int]:
        for number in range(10_000):
            made.append(number)
            yield number

    stream = IslandStream(island, produce())
    await anext(stream)
    await island.call(asyncio.sleep, 0)
    assert len(made) < 200
    await stream.aclose()


async def test_pulling_can_be_cancelled_and_gone_on_with(island: Island) -> None:
    free = asyncio.Event()

    async def produce() -> AsyncIterator[str]:
        await free.wait()
        yield "late"

    stream = IslandStream(island, produce())
    with trio.move_on_after(0.05) as limit:
        await anext(stream)
    await island.call(free.set)
    assert limit.cancelled_caught
    assert await anext(stream) == "late"


# Context managers.


async def test_a_context_manager_is_left_in_the_task_that_entered_it(island: Island) -> None:
    seen: list[Any] = []

    @asynccontextmanager
    async def opened() -> AsyncIterator[str]:
        seen.append(asyncio.current_task())
        async with asyncio.timeout(60):
            yield "session"
        seen.append(asyncio.current_task())

    @contextmanager
    def plain() -> Iterator[str]:
        yield threading.current_thread().name

    async with IslandManager(island, opened()) as value, IslandManager(island, plain()) as thread:
        assert (value, thread) == ("session", "bub island slow")
    assert seen[0] is seen[1] is not None


async def test_a_context_manager_that_cannot_be_entered_says_so(island: Island) -> None:
    @asynccontextmanager
    async def refused() -> AsyncIterator[None]:
        raise ConnectionError("refused")
        yield

    with pytest.raises(ConnectionError, match="refused"):
        async with IslandManager(island, refused()):
            pass


# The loop's own life.


async def test_closing_cancels_what_runs_and_the_next_call_opens_it_again() -> None:
    island, seen = Island("twice", SHORT), []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("ended")

    async def leave_behind() -> None:
        island.task = asyncio.create_task(forever())  # type: ignore[attr-defined]

    assert not threads_of("twice")
    await island.call(leave_behind)
    with trio.fail_after(5):
        await island.close()
        assert seen == ["ended"]
        assert not threads_of("twice")
        assert await island.call(lambda: "again") == "again"
        await island.close()


async def test_closing_leaves_no_thread_however_it_meets_the_one_that_watches() -> None:
    impatient = Patience(blocked=0.01, cancelled=5, ending=5)
    for _ in range(200):
        island = Island("thrice", impatient)
        with suppress(IslandBlockedError):  # on a machine that is busy
            await island.call(lambda: None)
        await island.close()
        assert not threads_of("thrice")


async def test_what_waits_when_the_loop_ends_is_told(island: Island) -> None:
    begun = trio.Event()

    async def wait() -> None:
        await island.back(set_begun)()
        await asyncio.Event().wait()

    async def set_begun() -> None:
        begun.set()

    async def call() -> None:
        with pytest.raises(IslandError):
            await island.call(wait)

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await begun.wait()
            await island.close()


async def test_a_task_that_ignores_the_end_of_its_loop_is_named_in_the_log(log: list[str]) -> None:
    island, over = Island("stubborn", SHORT), threading.Event()

    async def ignore() -> None:
        while not over.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    async def leave_behind() -> None:
        island.task = asyncio.create_task(ignore(), name="polling")  # type: ignore[attr-defined]

    await island.call(leave_behind)
    with trio.fail_after(5):
        await island.close()
    over.set()
    assert "island.task_goes_on" in "\n".join(log)
    assert "polling" in "\n".join(log)


def test_an_island_that_is_forgotten_ends_its_threads() -> None:
    island = Island("forgotten")
    assert island.call_now(lambda: 1, patience=5) == 1
    started = [thread for thread in threading.enumerate() if "forgotten" in thread.name]
    assert len(started) == 2
    del island
    for thread in started:
        thread.join(5)
        assert not thread.is_alive()


async def test_to_thread_runs_many_at_once_and_the_others_later(island: Island) -> None:
    free = threading.Event()

    def wait(number: int) -> int:
        free.wait()
        return number

    async def fail() -> str:
        try:
            await asyncio.to_thread(int, "no number")
        except ValueError:
            return "failed"
        return ""

    async def many() -> list[int]:
        tasks = [asyncio.create_task(asyncio.to_thread(wait, number)) for number in range(50)]
        await asyncio.sleep(0)
        free.set()
        return await asyncio.gather(*tasks)

    with trio.fail_after(10):
        assert await island.call(many) == [*range(50)]
        assert await island.call(fail) == "failed"


def test_a_thread_that_waits_for_ever_does_not_keep_the_process_from_ending() -> None:
    program = """
import asyncio, threading, trio
from bub.island.island import Island

async def main():
    island = Island("stuck")
    with trio.move_on_after(0.1):
        await island.call(asyncio.to_thread, threading.Event().wait)
    await island.close()

trio.run(main)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (0, "")
