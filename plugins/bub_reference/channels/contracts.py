"""What channels and the framework call of each other."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Coroutine
from typing import Any, Protocol, TypeAlias

from bub_reference.envelope import Envelope
from bub_reference.streaming import StreamEvent

MessageHandler: TypeAlias = Callable[[Envelope], Coroutine[Any, Any, None]]
"""Takes a message that came in."""


class ChannelRouter(Protocol):
    """Brings replies to channels."""

    async def dispatch_output(self, message: Envelope) -> bool: ...

    def wrap_stream(self, message: Envelope, stream: AsyncIterable[StreamEvent]) -> AsyncIterable[StreamEvent]: ...

    async def quit(self, session_id: str) -> None: ...
