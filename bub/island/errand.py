"""One call from an island back to trio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any

import trio

from bub.errors import BubError

PATIENCE = 5.0
"""How long, in seconds, what runs in trio may take to end once the asyncio task is cancelled."""


class Errand:
    """Something that an asyncio task waits for, and trio runs; made and awaited on the loop."""

    __slots__ = (
        "_arguments",
        "_function",
        "_is_given_up",
        "_is_over",
        "_loop",
        "_scope",
        "_token",
        "_waiter",
        "context",
    )

    def __init__(self, function: Callable[..., Awaitable[Any]], arguments: tuple[Any, ...]) -> None:
        self._function = function
        self._arguments = arguments
        self.context: Context = copy_context()
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[Any] = self._loop.create_future()
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope: trio.CancelScope | None = None
        self._is_given_up = self._is_over = False

    # In asyncio.

    async def answer(self) -> Any:
        """Its result. If the asyncio task is cancelled, what runs in trio is cancelled, too, and has ended then."""
        try:
            value = await asyncio.shield(self._waiter)
        except asyncio.CancelledError:
            if not self._waiter.done() and not self._is_over:
                self._is_given_up = True
                if self._token is not None:
                    with suppress(trio.RunFinishedError):
                        self._token.run_sync_soon(self._cancel)
                await asyncio.wait((self._waiter,), timeout=PATIENCE)
            if self._waiter.done() and not self._waiter.cancelled():
                self._waiter.exception()  # nobody else looks at it any more
            raise
        finally:
            take_over(self.context)
        return value

    def send(self, token: trio.lowlevel.TrioToken | None) -> None:
        """Have it run in a task of its own; it lives on if the call ends in which it began."""
        if token is not None:
            self._token = token
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(self._spawn)
                return
        self._settle(None, BubError("nothing runs that could do this", help="call it while Bub is running"))

    def sent_with(self, token: trio.lowlevel.TrioToken) -> Errand:
        """Note which run of trio runs it."""
        self._token = token
        return self

    # In trio.

    async def run(self) -> None:
        """Run it, and tell the asyncio task. Raises what is no failure, such as a cancellation from outside.

        Whoever gets that cancels the asyncio task.
        """
        with trio.CancelScope() as scope:
            self._scope = scope
            if self._is_given_up:
                scope.cancel()
            try:
                value = await self._function(*self._arguments)
            except Exception as error:  # noqa: BLE001 (raised in the asyncio task, where it belongs)
                self._tell(None, error)
                return
            except BaseException:
                self._is_over = not self._is_given_up
                raise
            self._tell(value, None)
        if scope.cancelled_caught:
            self._tell(None, asyncio.CancelledError())

    def _spawn(self) -> None:
        trio.lowlevel.spawn_system_task(self._run_alone, context=self.context)

    async def _run_alone(self) -> None:
        try:
            await self.run()
        except (KeyboardInterrupt, SystemExit) as error:  # a task of nobody must not end the process
            self._tell(None, error)
        except BaseException:
            self._tell(None, asyncio.CancelledError())
            raise

    def _cancel(self) -> None:
        if self._scope is not None:
            self._scope.cancel()

    def _tell(self, value: Any, error: BaseException | None) -> None:
        self.context = copy_context()
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._settle, value, error)

    def _settle(self, value: Any, error: BaseException | None) -> None:
        if self._waiter.done():
            return
        if error is None:
            self._waiter.set_result(value)
        elif isinstance(error, asyncio.CancelledError):
            self._waiter.cancel()
        else:
            self._waiter.set_exception(error)


def take_over(context: Context) -> None:
    """Set the context variables of who asks as they are in another context, where they differ."""
    now = copy_context()
    for variable, value in context.items():
        if now.get(variable, context) is not value:
            variable.set(value)
