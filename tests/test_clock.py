"""The clock for tests: virtual time jumps, except while something real is waited for."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import aclosing
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from bub.testing import VirtualClock
from bub.testing.bounds import run_bounded

MINUTES = 600.0


def run(main: Callable[..., Awaitable[Any]], *arguments: object) -> tuple[Any, VirtualClock, float]:
    """What `main` returns, the clock it ran on, and how many real seconds that took."""
    clock, began = VirtualClock(), time.perf_counter()
    result = trio.run(main, *arguments, clock=clock)
    return result, clock, time.perf_counter() - began


def test_time_begins_at_zero_and_jumps_over_a_wait() -> None:
    async def main() -> float:
        began = trio.current_time()
        await trio.sleep(MINUTES)
        return began

    began, clock, real = run(main)
    assert (began, clock.current_time(), clock.real) == (0.0, MINUTES, 0.0)
    assert real < 5


def test_a_time_out_strikes_at_its_time() -> None:
    async def main() -> float:
        with pytest.raises(trio.TooSlowError), trio.fail_after(120):
            await trio.sleep_forever()
        return trio.current_time()

    assert run(main)[0] == 120.0


def test_what_sleeps_wakes_in_the_order_of_time() -> None:
    woken: list[tuple[int, float]] = []

    async def sleep(seconds: int) -> None:
        await trio.sleep(seconds)
        woken.append((seconds, trio.current_time()))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for seconds in (30, 1, 600, 2):
                nursery.start_soon(sleep, seconds)

    run(main)
    assert woken == [(1, 1.0), (2, 2.0), (30, 30.0), (600, 600.0)]


def test_time_stands_still_while_code_runs() -> None:
    async def main() -> float:
        await trio.sleep(1)
        end = time.perf_counter() + 0.05
        while time.perf_counter() < end:
            await trio.lowlevel.checkpoint()
        return trio.current_time()

    assert run(main)[0] == 1.0


def wait_in_thread(seconds: float) -> None:
    threading.Event().wait(seconds)


async def in_thread() -> None:
    await trio.to_thread.run_sync(wait_in_thread, 0.1)


async def in_process() -> None:
    await trio.run_process([sys.executable, "-c", "import threading; threading.Event().wait(0.1)"])


async def at_socket() -> None:
    near, far = trio.socket.socketpair()
    with near, far:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(near.recv, 1)
            await trio.testing.wait_all_tasks_blocked()  # the wait begins first, however busy the machine is
            threading.Timer(0.1, os.write, [far.fileno(), b"x"]).start()


class Answer:
    """Awaited like a coroutine, but none: a common way to write what can be awaited."""

    def __await__(self) -> Generator[Any, Any, None]:
        return in_thread().__await__()


async def behind_an_object() -> None:
    await Answer()


async def answers() -> AsyncGenerator[int, None]:
    await in_thread()
    yield 1


async def in_a_loop() -> None:
    assert [answer async for answer in answers()] == [1]


async def for_the_next_one() -> None:
    async with aclosing(answers()) as them:
        assert await anext(them, None) == 1


@pytest.mark.parametrize("wait", [in_thread, in_process, at_socket, behind_an_object, in_a_loop, for_the_next_one])
def test_something_real_gets_the_time_it_needs(wait: Callable[[], Awaitable[None]]) -> None:
    async def main() -> float:
        with trio.fail_after(MINUTES):
            await wait()
        return trio.current_time()

    passed, clock, real = run(main)
    assert 0.09 <= passed <= real
    assert clock.real == passed


def test_a_name_is_looked_up_in_time() -> None:
    async def main() -> None:
        with trio.fail_after(MINUTES):
            assert await trio.socket.getaddrinfo("127.0.0.1", 80)

    assert run(main)[1].current_time() < MINUTES


def test_a_time_out_strikes_on_what_is_real_too() -> None:
    async def main() -> None:
        near, far = trio.socket.socketpair()
        with near, far, trio.move_on_after(0.1):
            await near.recv(1)

    _, clock, real = run(main)
    assert 0.1 <= clock.current_time() <= real


def test_beside_a_thread_nothing_is_jumped_over_and_behind_it_everything() -> None:
    async def main() -> float:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, MINUTES)
            await in_thread()
            return trio.current_time()

    passed, clock, real = run(main)
    assert 0.09 <= passed < 30
    assert clock.current_time() == pytest.approx(MINUTES)
    assert real < 30


def test_a_thread_that_waits_for_a_task_is_not_waited_for() -> None:
    async def main() -> None:
        await trio.to_thread.run_sync(trio.from_thread.run, trio.sleep, MINUTES)

    _, clock, real = run(main)
    assert clock.current_time() == pytest.approx(MINUTES, abs=30)
    assert real < 30


def test_a_thread_that_was_given_up_is_not_waited_for() -> None:
    release = threading.Event()

    async def main() -> None:
        with trio.move_on_after(0.05):
            await trio.to_thread.run_sync(release.wait, 30, abandon_on_cancel=True)
        await trio.sleep(MINUTES)
        release.set()

    _, clock, real = run(main)
    assert clock.current_time() == pytest.approx(MINUTES + 0.05, abs=1)
    assert real < 30


def test_who_waits_until_all_is_quiet_goes_before_time_does() -> None:
    async def main() -> list[str]:
        seen: list[str] = []

        async def sleep() -> None:
            await trio.sleep(1)
            seen.append("slept")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(sleep)
            await wait_all_tasks_blocked()
            seen.append("all were quiet")
        return seen

    assert run(main)[0] == ["all were quiet", "slept"]


def test_a_function_that_only_has_the_name_of_trios_does_not_stop_time() -> None:
    async def wait_all_tasks_blocked() -> float:
        await trio.sleep(MINUTES)
        return trio.current_time()

    assert run_bounded(wait_all_tasks_blocked, VirtualClock(), 2) == MINUTES


@pytest.mark.anyio
class TestUnderAnyio:
    """As the clock of a test of a plugin."""

    @pytest.fixture
    def anyio_backend(self) -> tuple[str, dict[str, Any]]:
        return "trio", {"clock": VirtualClock()}

    async def test_a_test_runs_on_it(self) -> None:
        before = trio.current_time()
        await trio.sleep(MINUTES)
        assert trio.current_time() - before == MINUTES
