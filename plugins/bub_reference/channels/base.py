"""What a plugin's channel extends."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable
from typing import ClassVar

from bub_reference.channels.admission import AdmitDecision, TurnSnapshot
from bub_reference.channels.message import ChannelMessage
from bub_reference.envelope import Envelope
from bub_reference.streaming import StreamEvent


class Channel(ABC):
    """A surface that messages come from and go to."""

    name: ClassVar[str] = "base"

    @abstractmethod
    async def start(self, stop_event: asyncio.Event) -> None:
        """Bring in messages; it may return and go on by itself, until the event is set."""

    @abstractmethod
    async def stop(self) -> None:
        """Put away what `start` has begun."""

    @property
    def needs_debounce(self) -> bool:
        """Whether messages that follow each other closely are answered as one."""
        return False

    @property
    def enabled(self) -> bool:
        """Whether it can run as it is set up."""
        return True

    async def send(self, message: ChannelMessage) -> None:
        """Deliver a reply; a channel that does not override it delivers none."""
        return

    def stream_events(self, message: ChannelMessage, stream: AsyncIterable[StreamEvent]) -> AsyncIterable[StreamEvent]:
        """Look at the events of an answer as they come, or change them."""
        return stream

    async def admit_message(self, session_id: str, message: Envelope, turn: TurnSnapshot) -> AdmitDecision | None:
        """Say what becomes of a message while its session is being answered."""
        return None


class Interface(Channel):
    """One that somebody sits at; it runs only where it is named."""


class Lifecycle(Channel):
    """A service that runs beside the channels."""
