"""An asynchronous iterator that produces on an island, and is pulled in trio."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextvars import copy_context
from typing import Any

import trio

from bub.island.faults import IslandError, stopped_by_itself
from bub.island.island import Island
from bub.island.looping import LoopThread, wait_for_island

_ROOM = 64
"""How many items may wait to be pulled; who produces more waits then."""


class IslandStream:
    """What an iterator yields on the island. What is ready crosses at once, so a piece costs little.

    The iterator is run, and closed, in one asyncio task of its own, which begins with the first item that is asked for.
    For one task of trio at a time.
    """

    def __init__(self, island: Island, iterator: AsyncIterator[Any]) -> None:
        self._island = island
        self._iterator = iterator
        self._context = copy_context()
        self._items: deque[Any] = deque()
        self._end: BaseException | None = None
        self._home: LoopThread | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._waiting: trio.lowlevel.Task | None = None
        self._task: asyncio.Task[None] | None = None
        self._room: asyncio.Event | None = None
        self._is_telling = False

    # In trio.

    def __aiter__(self) -> IslandStream:
        return self

    async def __anext__(self) -> Any:
        if self._home is None:
            self._home = self._island.home()
            self._token = self._home.token = trio.lowlevel.current_trio_token()
            self._home.enter(self, self._begin)
        while not self._items:
            if self._end is not None:
                raise self._end
            self._waiting = trio.lowlevel.current_task()
            await wait_for_island(self._abort)
        if len(self._items) == _ROOM:
            self._home.post(self._make_room)
        return self._items.popleft()

    async def aclose(self) -> None:
        """Close the iterator where it runs; harmless if it has ended."""
        home, self._home = self._home, None
        if home is not None:
            home.leave(self)
        if not isinstance(self._end, StopAsyncIteration):
            await self._island.call(self._close)
            self._end = StopAsyncIteration()

    def _abort(self, raise_cancel: Any) -> trio.lowlevel.Abort:
        self._waiting = None
        return trio.lowlevel.Abort.SUCCEEDED

    def _wake(self) -> None:
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            trio.lowlevel.reschedule(waiting)

    def fail(self, error: IslandError) -> None:
        """Let whoever pulls go on with an error, whatever the iterator does."""
        self._end = error
        self._tell()

    def _tell(self) -> None:
        self._is_telling = False
        if self._token is not None:
            try:
                self._token.run_sync_soon(self._wake)
            except trio.RunFinishedError:
                return

    # On the island.

    def _begin(self) -> None:
        self._room = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._produce(), context=self._context)

    def _make_room(self) -> None:
        if self._room is not None:
            self._room.set()

    async def _produce(self) -> None:
        end: BaseException = StopAsyncIteration()
        try:
            async for item in self._iterator:
                self._items.append(item)
                self._tell_soon()
                if len(self._items) >= _ROOM and self._room is not None:
                    self._room.clear()
                    if len(self._items) >= _ROOM:
                        await self._room.wait()
        except asyncio.CancelledError:
            end = stopped_by_itself(self._island.plugin)
        except BaseException as error:  # noqa: BLE001 (raised in trio, where it belongs)
            end = error
        finally:
            await _close(self._iterator)
            self._end = self._end or end
            self._tell_soon()

    def _tell_soon(self) -> None:
        """Tell trio when the loop comes round, so that what is ready by then crosses together."""
        if not self._is_telling:
            self._is_telling = True
            asyncio.get_running_loop().call_soon(self._tell)

    async def _close(self) -> None:
        if self._task is None:
            await _close(self._iterator)
        elif not self._task.done():
            self._task.cancel()
            await asyncio.wait((self._task,))


async def _close(iterator: AsyncIterator[Any]) -> None:
    close = getattr(iterator, "aclose", None)
    if close is not None:
        await close()
