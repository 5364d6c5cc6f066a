"""Bub beside a command of a plugin: the command has a loop of its own, and its turns run in a thread with trio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import trio

from bub import BubFramework

Back = Callable[..., Awaitable[Any]]


class Beside:
    """A runtime of the profile of `view`, open as long as the block lasts."""

    def __init__(self, view: Any) -> None:
        self._view = view
        self._serving: asyncio.Task[None] | None = None
        self._framework: BubFramework | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._left: trio.Event | None = None

    async def __aenter__(self) -> Beside:
        opened = asyncio.Event()
        begun = partial(asyncio.get_running_loop().call_soon_threadsafe, opened.set)
        self._serving = asyncio.create_task(asyncio.to_thread(trio.run, self._serve, begun))
        waiting = asyncio.create_task(opened.wait())
        await asyncio.wait((waiting, self._serving), return_when=asyncio.FIRST_COMPLETED)
        if self._serving.done():
            waiting.cancel()
            await self._serving
        return self

    async def __aexit__(self, *failure: object) -> None:
        if self._token is not None and self._left is not None and self._serving is not None:
            self._token.run_sync_soon(self._left.set)
            await self._serving

    async def _serve(self, begun: Callable[[], object]) -> None:
        view = self._view
        self._framework = BubFramework(view.pipeline_file, profile=view.profile, workspace=view.workspace)
        async with self._framework.running():
            self._token, self._left = trio.lowlevel.current_trio_token(), trio.Event()
            begun()
            await self._left.wait()

    async def process_inbound(self, message: Any, stream_output: bool, **told: Back) -> Any:
        """Carry a message through the pipeline; each of those that are `told` is awaited on the command's loop."""
        assert self._framework is not None, "it is asked within the block only"
        loop = asyncio.get_running_loop()
        there: dict[str, Any] = {name: _from_trio(function, loop) for name, function in told.items()}
        carry = partial(self._framework.process_inbound, message, stream_output, **there)
        return await asyncio.to_thread(trio.from_thread.run, carry, trio_token=self._token)


def _from_trio(function: Back, loop: asyncio.AbstractEventLoop) -> Back:
    async def call(*given: Any) -> Any:
        async def run() -> Any:
            return await function(*given)

        answered = asyncio.run_coroutine_threadsafe(run(), loop)
        return await trio.to_thread.run_sync(answered.result, abandon_on_cancel=True)

    return call
