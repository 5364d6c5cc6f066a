"""An island: the thread and the loop of a plugin that is written for asyncio."""

from __future__ import annotations

import asyncio
import functools
import threading
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeVar

import trio

from bub.island.crossing import Crossing
from bub.island.errand import Errand
from bub.island.faults import IslandBlockedError, IslandError
from bub.island.looping import LoopThread
from bub.island.patience import Patience
from bub.log import log_exception

_T = TypeVar("_T")


class Island:
    """One asyncio loop in a thread of its own, opened when it is first needed; `plugin` is who lives there.

    Plugins do not share it, so one that blocks its loop stops only itself. It can be closed, and is opened again by
    the next call.
    """

    def __init__(self, plugin: str, patience: Patience = Patience()) -> None:  # noqa: B008 (it is frozen)
        self.plugin = plugin
        self._patience = patience
        self._home: LoopThread | None = None
        self._lock = threading.Lock()
        self._forgotten: weakref.finalize[[], Island] | None = None

    # From trio to asyncio.

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function on the loop, and await there what it returns if that has to be awaited.

        What it raises is raised here. Context variables cross both ways. If this is cancelled, `CancelledError` is
        raised in the function, and this ends when that has; one that ignores it is left to itself after some seconds,
        and the log says so. Raises `IslandError` if the plugin blocks its loop, or cancels the task itself.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        return await Crossing(self.home(), function, arguments).cross()

    def call_now(self, function: Callable[..., _T], *arguments: Any, patience: float) -> _T:
        """Call a plain function on the loop, and wait in this thread until it returns.

        Raises `IslandBlockedError` if that takes longer than `patience` seconds.
        """
        home = self.home()
        if home.is_here:
            return function(*arguments)
        if trio.lowlevel.in_trio_run():
            home.token = trio.lowlevel.current_trio_token()
        visit = _Visit(functools.partial(copy_context().run, function, *arguments))
        home.enter(visit, visit.run)
        try:
            if not visit.over.wait(patience):
                raise IslandBlockedError(self.plugin, home.where(), patience)
        finally:
            home.leave(visit)
        if visit.error is not None:
            raise visit.error
        value: _T = visit.value
        return value

    def tell(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a plain function on the loop, soon; that it fails is only logged."""
        with suppress(IslandBlockedError):
            self.home().post(_try, self.plugin, function, arguments)

    def home(self) -> LoopThread:
        """The loop, opened by now. Raises `IslandBlockedError` if it is blocked."""
        home = self._home
        if home is None:
            with self._lock:
                home = self._home
                if home is None:
                    home = self._home = LoopThread(self.plugin, self._patience)
                    self._forgotten = weakref.finalize(self, home.end)
                    self._forgotten.atexit = False  # its threads end with the process
        if home.blocked_at is not None:
            raise IslandBlockedError(self.plugin, home.blocked_at, self._patience.blocked)
        return home

    # From asyncio to trio.

    def back(self, function: Callable[..., Awaitable[_T]]) -> Callable[..., Awaitable[_T]]:
        """The same function for code that runs on the loop: it runs in trio, with the caller's context variables.

        If the asyncio task is cancelled, what runs in trio is cancelled, too. What the task that answers a call awaits
        itself, runs in the trio task that waits for the answer; all else in a task of its own. In trio it is the
        function itself.
        """

        @functools.wraps(function)
        async def run_in_trio(*arguments: Any, **named: Any) -> _T:
            if trio.lowlevel.in_trio_run():
                return await function(*arguments, **named)
            value: _T = await self._send(functools.partial(function, **named), arguments)
            return value

        return run_in_trio

    async def _send(self, function: Callable[..., Awaitable[Any]], arguments: tuple[Any, ...]) -> Any:
        errand = Errand(function, arguments)
        home = self._home
        task = asyncio.current_task()
        crossing = home.crossings.get(task) if home is not None and task is not None else None
        if crossing is not None:
            crossing.bring(errand.sent_with(crossing.token))
        else:
            errand.send(home.token if home is not None else None)
        return await errand.answer()

    # How it is.

    @property
    def blocked_at(self) -> str | None:
        """The place at which the plugin blocks its loop; None if it does not."""
        return self._home.blocked_at if self._home is not None else None

    async def close(self) -> None:
        """Cancel all tasks of the loop and end it, in bounded time, whatever is cancelled meanwhile."""
        home = self._take_leave()
        if home is None:
            return
        over, token = trio.Event(), trio.lowlevel.current_trio_token()

        def tell() -> None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(over.set)

        home.end(tell)
        with trio.CancelScope(shield=True):  # the loop's thread bounds it, in real seconds
            await over.wait()

    def leave(self) -> None:
        """Begin to end the loop, and wait for nothing."""
        home = self._take_leave()
        if home is not None:
            home.end()

    def _take_leave(self) -> LoopThread | None:
        with self._lock:
            home, self._home = self._home, None
            if self._forgotten is not None:
                self._forgotten.detach()
            return home


def _try(plugin: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        function(*arguments)
    except Exception as error:  # noqa: BLE001 (nobody waits for it)
        log_exception("island.call_failed", error, adapter=plugin)


class _Visit:
    """A plain function that a thread waits for."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self.over = threading.Event()
        self.value: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.value = self._function()
        except BaseException as error:  # noqa: BLE001 (raised by whoever waits)
            self.error = error
        self.over.set()

    def fail(self, error: IslandError) -> None:
        self.error = error
        self.over.set()
