"""What stays open for a while: resources that are opened once and closed in reverse order, whatever fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any, TypeVar

import trio

from bub.log import log_exception, log_warning

CLOSING_PATIENCE = 10.0
"""How long, in seconds, each resource may take to close."""

_T = TypeVar("_T")


class Scope:
    """Resources that live as long as the runtime, or as long as one turn.

    What is opened may be used by any task until `close`, so it must hold no nursery and no cancel scope open.
    """

    def __init__(self) -> None:
        self._open: list[AbstractContextManager[Any] | AbstractAsyncContextManager[Any]] = []
        self._shared: dict[object, Any] = {}
        self._opening: trio.Lock | None = None

    async def enter(self, manager: Any) -> Any:
        """Open a context manager, sync or async, and return what it gives; it is closed with the scope."""
        if hasattr(manager, "__aenter__"):
            value = await manager.__aenter__()
        else:
            value = manager.__enter__()
        self._open.append(manager)
        return value

    async def shared(self, factory: Callable[[], AbstractAsyncContextManager[_T]]) -> _T:
        """What `factory` opens: opened by whoever asks first, the same one for everybody after."""
        if factory not in self._shared:
            if self._opening is None:
                self._opening = trio.Lock()
            async with self._opening:
                if factory not in self._shared:
                    self._shared[factory] = await self.enter(factory())
        value: _T = self._shared[factory]
        return value

    async def close(self) -> None:
        """Close everything in reverse order, each within `CLOSING_PATIENCE`; a failure is logged (BEHAVIOURS T38).

        A failure that ended the scope is not thrown into them, so what follows the `yield` of a generator always runs.
        What is no failure, such as a KeyboardInterrupt, is raised when everything is closed; the first one counts.
        """
        self._shared.clear()
        interruption: BaseException | None = None
        while self._open:
            try:
                await _close(self._open.pop())
            except BaseException as error:  # noqa: BLE001 (the rest has to be closed first; then it is raised)
                interruption = interruption or error
        if interruption is not None:
            raise interruption


async def _close(manager: Any) -> None:
    """Close one resource in bounded time; that it fails or takes too long is logged."""
    with trio.CancelScope(deadline=trio.current_time() + CLOSING_PATIENCE, shield=True) as scope:
        try:
            if hasattr(manager, "__aexit__"):
                await manager.__aexit__(None, None, None)
            else:
                manager.__exit__(None, None, None)
        except Exception as error:  # noqa: BLE001 (it is logged, and the others are closed)
            log_exception("resource.close_failed", error, resource=type(manager).__name__)
    if scope.cancelled_caught:
        log_warning("resource.close_timed_out", resource=type(manager).__name__, seconds=CLOSING_PATIENCE)


def as_manager(provided: Any) -> Any | None:
    """The context manager that something provided is, or that a (sync or async) iterator becomes; None for neither.

    An iterator yields its value once and is run to its end when it is closed (BEHAVIOURS T36).
    """
    if hasattr(provided, "__enter__") or hasattr(provided, "__aenter__"):
        return provided
    if isinstance(provided, AsyncIterator):
        return asynccontextmanager(lambda: _as_async_generator(provided))()
    if isinstance(provided, Iterator):
        return contextmanager(lambda: provided)()
    return None


async def _as_async_generator(iterator: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for value in iterator:
        yield value
