"""A channel on which as many chats as asked write at once, and that looks when each begins to be answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from bub.channels import Channel, ChannelMessage
from bub.streaming import StreamEvent

PLUGIN = """
from bub import hookimpl
from tests.bench._crowd import CROWD

@hookimpl
def provide_channels(message_handler):
    CROWD.handler = message_handler
    return [CROWD]
"""


class Crowd(Channel):
    """Chats named by numbers; `begun` is called with a chat at its first token."""

    name = "crowd"
    handler: Callable[[Any], Awaitable[None]]

    def __init__(self) -> None:
        self.begun: Callable[[str], None] = lambda chat: None
        self.heard: dict[str, int] = {}
        self._replied: dict[str, trio.Event] = {}

    async def talk(self, chat: str) -> None:
        """Say something, and wait for the reply."""
        self._replied[chat] = trio.Event()
        await self.handler({"channel": self.name, "chat_id": chat, "content": "hello", "message_id": chat})
        await self._replied[chat].wait()

    async def send(self, message: ChannelMessage) -> None:
        self._replied[message.chat_id].set()

    def on_event(self, event: StreamEvent, message: ChannelMessage) -> None:
        if event.kind == "text":
            heard = self.heard.get(message.chat_id, 0) + 1
            self.heard[message.chat_id] = heard
            if heard == 1:
                self.begun(message.chat_id)


CROWD = Crowd()
"""The channel of this process."""
