"""How long a model may be silent while its stream is open (DESIGN §13, Time)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from typing import Any

import trio

from bub.base.waiting import Expired, MovingDeadline
from bub.errors import BubError
from bub.streaming import AsyncStreamEvents, StreamEvent


class SilentError(BubError, trio.TooSlowError):
    """A model has said nothing for as long as the pipeline file lets it be silent."""


class Silence:
    """Bounds each wait for the next word of a stream to `seconds`; `limit` is what does so.

    What lies between the words does not count: a slow reader, tools that run between a `tool_call` and its
    `tool_result`, and the seconds of a pause that a `waiting` event tells of. A stream whose maker heeds the bound by
    itself, since it knows more, is left to it.
    """

    __slots__ = ("limit", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.limit = MovingDeadline()

    async def wait(self, who: str, awaitable: Awaitable[Any], *, pause: float = 0.0) -> Any:
        """Await what `who` says next, after a `pause` in seconds. Raises `SilentError`."""
        try:
            with self.limit as limit:
                limit.start(self.seconds + pause)
                return await limit(awaitable)
        except Expired:
            raise SilentError(
                f"{who} said nothing for {self.seconds:g} seconds",
                help="try again, or raise `idle_timeout` of its stage in the pipeline file",
            ) from None

    def within(self, who: str, events: AsyncStreamEvents) -> AsyncStreamEvents:
        """The events of a stream, none of which lets anybody wait longer; `who` makes them."""
        if events.bound_silence(self.seconds):
            return events
        return AsyncStreamEvents(_Heard(self, who, events), events.state)


class _Heard:
    """The events of a stream that must not be silent for long."""

    __slots__ = ("_events", "_pause", "_reading", "_running", "_silence", "_who")

    def __init__(self, silence: Silence, who: str, events: AsyncStreamEvents) -> None:
        self._silence = silence
        self._who = who
        self._events = events
        self._reading = aiter(events)
        self._running: set[Any] = set()
        self._pause = 0.0

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self

    async def __anext__(self) -> StreamEvent:
        coming = anext(self._reading)
        event = await (coming if self._running else self._silence.wait(self._who, coming, pause=self._pause))
        self._pause = 0.0
        if isinstance(event, StreamEvent):
            if event.kind == "tool_call":
                self._running.add(event.data.get("id"))
            elif event.kind == "tool_result":
                self._running.discard(event.data.get("id"))
            elif event.kind == "waiting":
                seconds = event.data.get("seconds")
                self._pause = max(0.0, seconds) if isinstance(seconds, int | float) else 0.0
        return event

    async def aclose(self) -> None:
        await self._events.aclose()
