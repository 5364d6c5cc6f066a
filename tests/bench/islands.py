"""What a call to a plugin on asyncio costs, and a piece of a stream, against a bare crossing written by hand."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from time import perf_counter, process_time
from typing import Any

import trio

from bub.island.island import Island
from bub.island.stream import IslandStream

CALLS, ROUNDS, PIECES = 1_000, 9, 10_000


async def answer(word: str) -> str:
    """What nearly every hook is."""
    return word


async def pause(word: str) -> str:
    """A hook that lets its loop go round once."""
    await asyncio.sleep(0)
    return word


async def pieces() -> AsyncIterator[str]:
    """A stream whose pieces come in fours."""
    for number in range(PIECES):
        if number % 4 == 0:
            await asyncio.sleep(0)
        yield "piece"


async def measure() -> None:
    """Print microseconds a call, processor and clock, best of all rounds."""
    island, loop = Island("bench"), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def bare(function: Callable[[str], Awaitable[str]]) -> Any:
        return await _cross_by_hand(loop, function)

    async def through(function: Callable[[str], Awaitable[str]]) -> Any:
        return await island.call(function, "word")

    print(f"microseconds a call, processor (clock), best of {ROUNDS} rounds of {CALLS} calls")
    for name, function in (("answers at once", answer), ("goes round once", pause)):
        rows = [(await _time(bare, function), await _time(through, function)) for _ in range(ROUNDS)]
        floor, ours = (min(row[side] for row in rows) for side in (0, 1))
        print(f"  {name}   by hand {_shown(floor)}   island {_shown(ours)}")
    best = min([await _time_stream(island) for _ in range(ROUNDS)])
    print(f"  a piece of a stream in fours   island {_shown(best)}")
    await island.close()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


async def _cross_by_hand(loop: asyncio.AbstractEventLoop, function: Callable[[str], Awaitable[str]]) -> Any:
    """The least that a crossing is: a future of another thread, and an event that it sets."""
    token, came = trio.lowlevel.current_trio_token(), trio.Event()

    async def run() -> str:
        return await function("word")

    future = asyncio.run_coroutine_threadsafe(run(), loop)
    future.add_done_callback(lambda _: token.run_sync_soon(came.set))
    await came.wait()
    return future.result()


async def _time(call: Callable[[Any], Awaitable[Any]], function: Any) -> tuple[float, float]:
    busy, start = process_time(), perf_counter()
    for _ in range(CALLS):
        await call(function)
    return (process_time() - busy) / CALLS * 1e6, (perf_counter() - start) / CALLS * 1e6


async def _time_stream(island: Island) -> tuple[float, float]:
    busy, start = process_time(), perf_counter()
    async for _ in IslandStream(island, pieces()):
        pass
    return (process_time() - busy) / PIECES * 1e6, (perf_counter() - start) / PIECES * 1e6


def _shown(times: tuple[float, float]) -> str:
    return f"{times[0]:.1f} ({times[1]:.1f})"


if __name__ == "__main__":
    trio.run(measure)
