"""Takes what channels bring in, as a program that runs the framework itself does it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Collection

from loguru import logger

from bub_reference.channels.base import Channel, Interface, Lifecycle
from bub_reference.channels.message import ChannelMessage
from bub_reference.envelope import Envelope, content_of, field_of
from bub_reference.framework import BubFramework
from bub_reference.streaming import StreamEvent


class ChannelManager:
    """The channels of a framework, and the queue of what they bring in.

    `enabled_channels` are names; "all" are all but those that somebody sits at, and `!name` leaves one out.
    """

    def __init__(
        self,
        framework: BubFramework,
        enabled_channels: Collection[str] | None = None,
        stream_output: bool | None = None,
    ) -> None:
        self.framework = framework
        self.stream_output = bool(stream_output)
        self._wanted = [name.strip() for name in (enabled_channels or ("all",)) if name.strip()]
        self._messages: asyncio.Queue[ChannelMessage] = asyncio.Queue()
        self._channels = framework.get_channels(self.on_receive)

    async def on_receive(self, message: ChannelMessage) -> None:
        """Keep a message for its turn; one of an unknown channel is logged."""
        if message.channel not in self._channels:
            logger.warning("a message came from `{}`, which is no channel here", message.channel)
            return
        await self._messages.put(message)

    def get_channel(self, name: str) -> Channel | None:
        """The channel of this name."""
        return self._channels.get(name)

    def enabled_channels(self) -> list[Channel]:
        """The channels that run."""
        left_out = {name[1:] for name in self._wanted if name.startswith("!")}
        able = [one for one in self._channels.values() if one.enabled and one.name not in left_out]
        if "all" in self._wanted:
            return [one for one in able if not isinstance(one, Interface)]
        chosen = [one for one in able if one.name in self._wanted]
        is_alone = all(isinstance(one, Lifecycle) for one in chosen)
        return chosen if is_alone else [one for one in able if one in chosen or isinstance(one, Lifecycle)]

    async def dispatch_output(self, message: Envelope) -> bool:
        """Hand a reply to its channel; False if there is none."""
        channel = self._of(message)
        if channel is None:
            return False
        reply = ChannelMessage(
            session_id=str(field_of(message, "session_id", f"{channel.name}:default")),
            channel=channel.name,
            chat_id=str(field_of(message, "chat_id", "default")),
            content=content_of(message),
            context=dict(field_of(message, "context") or {}),
            kind=field_of(message, "kind", "normal"),
        )
        await channel.send(reply)
        return True

    def wrap_stream(self, message: Envelope, stream: AsyncIterable[StreamEvent]) -> AsyncIterable[StreamEvent]:
        """Let the channel of a message look at the events of its answer."""
        channel = self._of(message)
        return stream if channel is None else channel.stream_events(message, stream)

    async def quit(self, session_id: str) -> None:
        """End what runs in a session: here nothing does."""

    def _of(self, message: Envelope) -> Channel | None:
        name = field_of(message, "output_channel") or field_of(message, "channel")
        return None if name is None else self._channels.get(str(name))
