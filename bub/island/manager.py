"""A context manager that is open on an island."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import Any

from bub.island.island import Island


class IslandManager:
    """A context manager, sync or async, that one asyncio task enters and leaves; `async with` in trio opens it.

    `manager` may be a function as well, which makes it there; None opens nothing. `adapt` makes of what it gives what
    trio can use.
    """

    def __init__(self, island: Island, manager: Any, adapt: Callable[[Any], Any] = lambda value: value) -> None:
        self._island = island
        self._manager = manager
        self._adapt = adapt
        self._task: asyncio.Task[None] | None = None
        self._left: asyncio.Event | None = None

    async def __aenter__(self) -> Any:
        return self._adapt(await self._island.call(self._open))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._island.call(self._close)

    async def _open(self) -> Any:
        entered = asyncio.get_running_loop().create_future()
        self._left = asyncio.Event()
        self._task = asyncio.create_task(self._own(entered, self._left))
        try:
            await asyncio.wait((entered, self._task), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.wait((self._task,))
            raise
        return entered.result() if entered.done() else await self._task

    async def _own(self, entered: asyncio.Future[Any], left: asyncio.Event) -> None:
        manager = self._manager
        if not isinstance(manager, AbstractAsyncContextManager | AbstractContextManager):
            manager = manager()
        if isinstance(manager, AbstractAsyncContextManager):
            async with manager as value:
                entered.set_result(value)
                await left.wait()
        elif manager is None:
            entered.set_result(None)
        else:
            with manager as value:
                entered.set_result(value)
                await left.wait()

    async def _close(self) -> None:
        if self._task is not None and self._left is not None:
            self._left.set()
            await self._task
