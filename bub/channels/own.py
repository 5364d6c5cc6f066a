"""A channel that Bub itself brings, and no plugin: it says who hands its messages over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bub.base.surfaces import Surface
from bub.channels.channel import Channel
from bub.channels.message import ChannelMessage


class OwnChannel(Channel):
    """The base of a channel that runs beside those of the file, and keeps nothing going by itself."""

    surface: Surface = Surface.CHANNEL
    """Who hands over what it brings in."""

    def __init__(self) -> None:
        self._handle: Callable[[ChannelMessage], Awaitable[None]] | None = None

    def hand_to(self, handler: Callable[[ChannelMessage], Awaitable[None]]) -> None:
        """Hand over each message that comes in to `handler` from now on, which knows by this who hands it over."""
        self._handle = handler

    async def hand_over(self, message: ChannelMessage) -> None:
        """Hand a message over: it is kept when this returns. Raises `BubError` if it cannot be."""
        assert self._handle is not None, "whoever runs the channel takes what it brings"
        await self._handle(message)
