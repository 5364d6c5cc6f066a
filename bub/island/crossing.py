"""One call from trio to an island: what is carried over, and what comes back."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from typing import Any, TypeAlias

import trio

from bub.base.waiting import is_awaitable
from bub.island.errand import Errand, take_over
from bub.island.faults import IslandError, not_given_up, stopped_by_itself
from bub.island.looping import LoopThread, wait_for_island
from bub.log import log_warning

_End: TypeAlias = tuple[Any, BaseException | None]
"""The value of a call, or what it raised."""


class Crossing:
    """One call; made and awaited in a task of trio, which runs what the asyncio task itself asks trio for.

    A cancellation of the trio task cancels the asyncio task, and waits until that has ended.
    """

    __slots__ = (
        "_arguments",
        "_context",
        "_function",
        "_interruption",
        "_is_cancelled",
        "_is_parked",
        "_post_box",
        "_raise_cancel",
        "_task",
        "_waiting",
        "home",
        "token",
    )

    def __init__(self, home: LoopThread, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.home = home
        self.token = home.token = trio.lowlevel.current_trio_token()
        self._function = function
        self._arguments = arguments
        self._context: Context = copy_context()
        self._waiting = trio.lowlevel.current_task()
        self._post_box: deque[_End | Errand] = deque()
        self._task: asyncio.Task[None] | None = None
        self._is_parked = self._is_cancelled = False
        self._raise_cancel: Callable[[], None] | None = None
        self._interruption: BaseException | None = None

    # In trio.

    async def cross(self) -> Any:
        """Carry it over; what the function returns, or raises."""
        self.home.enter(self, self._begin)
        try:
            while isinstance(came := await self._receive(), Errand):
                await self._run(came)
            try:
                return self._come_back(*came)
            finally:
                del came  # the traceback of an error in it names this frame: the two would keep each other
        finally:
            self.home.leave(self)

    async def _receive(self) -> _End | Errand:
        while not self._post_box:
            self._is_parked = True
            await wait_for_island(self._abort)
        return self._post_box.popleft()

    def _abort(self, raise_cancel: Callable[[], None]) -> trio.lowlevel.Abort:
        self._raise_cancel = raise_cancel
        self._cancel_soon()
        return trio.lowlevel.Abort.FAILED  # it is over when the asyncio task is

    def _cancel_soon(self) -> None:
        if not self._is_cancelled:
            self._is_cancelled = True
            self.home.post(self._cancel)

    async def _run(self, errand: Errand) -> None:
        """Run what the asyncio task waits for; what interrupts that ends the asyncio task, too."""
        take_over(errand.context)
        try:
            await errand.run()
        except BaseException as error:  # noqa: BLE001 (a cancellation: raised again when the asyncio task has ended)
            self._interruption = error
            self._cancel_soon()

    def _come_back(self, value: Any, error: BaseException | None) -> Any:
        take_over(self._context)
        if self._interruption is not None:
            raise self._interruption
        if error is None:
            return value
        if isinstance(error, asyncio.CancelledError):
            if self._raise_cancel is not None:
                self._raise_cancel()
            raise stopped_by_itself(self.home.plugin)
        try:
            raise error
        finally:
            del error  # its traceback names this frame: the two would keep each other

    def _deliver(self, came: _End | Errand) -> None:
        self._post_box.append(came)
        if self._is_parked:
            self._is_parked = False
            trio.lowlevel.reschedule(self._waiting)

    # In any thread.

    def bring(self, came: _End | Errand) -> None:
        """Hand something to the trio task; nothing happens if that run of trio is over."""
        try:
            self.token.run_sync_soon(self._deliver, came)
        except trio.RunFinishedError:
            return

    def fail(self, error: IslandError) -> None:
        """Let the trio task go on with an error, whatever the asyncio task does."""
        self.bring((None, error))
        self.home.post(self._cancel)

    # On the island.

    def _begin(self) -> None:
        if self._is_cancelled:
            self.bring((None, asyncio.CancelledError()))
            return
        try:
            value = self._context.run(self._function, *self._arguments)
            if is_awaitable(value):
                self._task = self.home.loop.create_task(self._drive(value), context=self._context)
                self.home.crossings[self._task] = self
                return
        except BaseException as error:  # noqa: BLE001 (raised in trio, where it belongs)
            self.bring((None, error))
        else:
            self.bring((value, None))

    async def _drive(self, awaitable: Awaitable[Any]) -> None:
        try:
            value = await awaitable
        except BaseException as error:  # noqa: BLE001 (raised in trio, where it belongs)
            self.bring((None, error))
        else:
            self.bring((value, None))
        finally:
            if self._task is not None:
                self.home.crossings.pop(self._task, None)

    def _cancel(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            self.home.loop.call_later(self.home.patience.cancelled, self._abandon)

    def _abandon(self) -> None:
        if self._task is not None and not self._task.done():
            seconds = self.home.patience.cancelled
            log_warning("island.call_goes_on", adapter=self.home.plugin, seconds=seconds)
            self.home.crossings.pop(self._task, None)
            cancelled = self._raise_cancel is not None or self._interruption is not None
            self.bring((None, asyncio.CancelledError() if cancelled else not_given_up(self.home.plugin, seconds)))
