"""A channel of the reference as Bub runs it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from bub.channels import Channel as OurChannel
from bub.channels import ChannelMessage as OurMessage
from bub_reference.bridge.messages import to_reference
from bub_reference.channels.base import Channel, Interface, Lifecycle


class AdoptedChannel(OurChannel):
    """Starts a channel of the reference, and stops it when it is cancelled; `within` is where its code runs."""

    def __init__(self, channel: Channel, within: Callable[[], AbstractContextManager[Any]]) -> None:
        self.name = channel.name
        self.role = _role_of(channel)
        self.needs_debounce = channel.needs_debounce
        self._channel = channel
        self._within = within

    @property
    def enabled(self) -> bool:
        """Whether it can run as it is set up."""
        with self._within():
            return self._channel.enabled

    @property
    def why_disabled(self) -> str:
        """What to do so that it can run."""
        return f"see `settings.{self.name}`: the channel's plugin says that something is missing there"

    async def run(self, *, task_status: Any = None) -> None:
        """Start it, and let it run until this is cancelled, or it says itself that it has ended."""
        with self._within():
            stopped = asyncio.Event()
            starting = asyncio.ensure_future(self._channel.start(stopped))
            waiting = asyncio.ensure_future(stopped.wait())
            if task_status is not None:
                task_status.started()
            try:
                await asyncio.wait((starting, waiting), return_when=asyncio.FIRST_COMPLETED)
                if starting.done():
                    starting.result()
                await waiting
            finally:
                stopped.set()
                starting.cancel()
                await asyncio.gather(starting, waiting, return_exceptions=True)
                await self._channel.stop()

    async def send(self, message: OurMessage) -> None:
        """Deliver one reply."""
        with self._within():
            await self._channel.send(to_reference(message))


def _role_of(channel: Channel) -> Any:
    if isinstance(channel, Lifecycle):
        return "service"
    return "interface" if isinstance(channel, Interface) else "chat"
