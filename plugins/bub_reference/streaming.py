"""Streams of a model: Bub's own, with what the reference reads of one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from bub.streaming import AsyncStreamEvents as _AsyncStreamEvents
from bub.streaming import StreamEvent as StreamEvent
from bub.streaming import StreamState as StreamState

__all__ = ["AsyncStreamEvents", "StreamEvent", "StreamState"]


class AsyncStreamEvents(_AsyncStreamEvents):
    """A stream of events; `error` and `usage` are known once it ends."""

    __slots__ = ()

    def __init__(self, iterator: AsyncIterator[StreamEvent], *, state: StreamState | None = None) -> None:
        super().__init__(iterator, state)

    @property
    def error(self) -> BaseException | None:
        """What ended the stream before its time."""
        return self.state.error

    @property
    def usage(self) -> dict[str, Any] | None:
        """The provider's counts."""
        return self.state.usage
