"""A channel to test with: a line that messages are said into, and that keeps what is said back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import trio
from fakes.toys import Toy, Workshop

from bub import BubFramework
from bub.base.counts import Counts
from bub.channels import Channel, ChannelManager, ChannelMessage
from bub.inbox.mailbox import Mailbox
from bub.streaming import StreamEvent

Handler = Callable[[Any], Awaitable[bool | None]]


class Line(Channel):
    """A channel in memory. `fails` are raised by `send`, one after another, before it delivers."""

    def __init__(self, name: str = "line", *, enabled: bool = True, **how: Any) -> None:
        self.name = name
        self.sent: list[ChannelMessage] = []
        self.events: list[tuple[StreamEvent, ChannelMessage]] = []
        self.fails: list[Exception] = []
        self.handler: Handler | None = None
        self.is_enabled = enabled
        self._numbers = count(1)
        for what, value in how.items():
            setattr(self, what, value)

    @property
    def enabled(self) -> bool:
        return self.is_enabled

    @property
    def why_disabled(self) -> str:
        return "" if self.is_enabled else f"set `settings.{self.name}.token`"

    async def say(self, content: str, chat_id: str = "1", **more: Any) -> bool | None:
        """Somebody writes; says whether a turn follows."""
        assert self.handler is not None
        number = next(self._numbers)
        told = {"channel": self.name, "chat_id": chat_id, "content": content, "message_id": f"m{number}", **more}
        return await self.handler(told)

    async def send(self, message: ChannelMessage) -> None:
        if self.fails:
            raise self.fails.pop(0)
        self.sent.append(message)

    def on_event(self, event: StreamEvent, message: ChannelMessage) -> None:
        self.events.append((event, message))

    @property
    def said(self) -> list[str]:
        """What was said back, without where."""
        return [message.content for message in self.sent]


def lines(*channels: Channel) -> Callable[..., list[Channel]]:
    """A `provide_channels` that brings these."""

    def provide_channels(message_handler: Handler) -> list[Channel]:
        for channel in channels:
            if isinstance(channel, Line):
                channel.handler = message_handler
        return list(channels)

    return provide_channels


def an_office(
    workshop: Workshop, *channels: Channel, pipeline: str = "extends: bub:default", **hooks: Any
) -> BubFramework:
    """A framework with these channels and hooks, whose model says what it is told."""
    hooks.setdefault("run_model", lambda prompt: f"you said {prompt}")
    return workshop(pipeline, office=Toy(provide_channels=lines(*channels), **hooks))


@asynccontextmanager
async def opened(
    framework: BubFramework,
    names: tuple[str, ...] = ("all",),
    *,
    mailbox: Mailbox | None = None,
    counts: Counts | None = None,
    wall: Callable[[], float] | None = None,
) -> AsyncIterator[ChannelManager]:
    """Channels that run as long as the block, and are ended in order behind it."""
    async with framework.running(), trio.open_nursery() as nursery:
        kept = mailbox if mailbox is not None else Mailbox(None, framework.workspace)
        manager = ChannelManager(framework, names, mailbox=kept, counts=counts, wall=wall)
        await nursery.start(manager.run)
        yield manager
        manager.drain()
