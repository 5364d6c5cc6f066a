"""A channel that a plugin brings which runs on asyncio."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import trio

from bub.approval import Question
from bub.channels.channel import Channel, ShownQuestion
from bub.channels.message import ChannelMessage
from bub.island.guest import Guest
from bub.island.island import Island
from bub.island.manager import IslandManager
from bub.plugins.section import HasSettings
from bub.streaming import StreamEvent

_QUICKLY = 0.5
"""How long, in seconds, what everybody waits for may take."""

_FACTS = ("role", "needs_debounce", "when_busy", "can_ask", "shows_questions")


class IslandChannel(Channel):
    """A channel whose methods run on an island; what it does not override is as for any channel."""

    def __init__(self, island: Island, channel: Any) -> None:
        self._island = island
        self._channel = channel
        self.name = channel.name
        self._read_facts()

    def _read_facts(self) -> None:
        for fact in _FACTS:
            setattr(self, fact, getattr(self._channel, fact, getattr(Channel, fact)))

    def _has_own(self, method: str) -> bool:
        own = getattr(type(self._channel), method, None)
        return own is not None and own is not getattr(Channel, method)

    @property
    def enabled(self) -> bool:
        """Whether the channel can run as it is set up."""
        return bool(getattr(self._channel, "enabled", True))

    @property
    def why_disabled(self) -> str:
        """What to do so that the channel can run."""
        return str(getattr(self._channel, "why_disabled", ""))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Bring in messages until cancelled; the loop tells trio when it has begun."""
        if not self._has_own("run"):
            await super().run(task_status=task_status)
            return
        self._channel.desk = Guest(self._island, self.desk) if self.desk is not None else None
        begun = _Begun(trio.lowlevel.current_trio_token(), task_status)
        try:
            await self._island.call(functools.partial(self._channel.run, task_status=begun))
        finally:
            self._channel.desk = None

    def reload(self, framework: HasSettings) -> Iterable[str] | None:
        """Take over settings that were loaded again."""
        if not self._has_own("reload"):
            return None
        fixed: Iterable[str] | None = self._island.call_now(self._channel.reload, framework, patience=_QUICKLY)
        self._read_facts()
        return fixed

    async def send(self, message: ChannelMessage) -> None:
        """Deliver one reply."""
        await (self._island.call(self._channel.send, message) if self._has_own("send") else super().send(message))

    def on_event(self, event: StreamEvent, message: ChannelMessage) -> Any:
        """Told of each event of the answer to `message`."""
        return self._island.call(self._channel.on_event, event, message) if self._has_own("on_event") else None

    def admits(self, message: ChannelMessage) -> bool:
        """Whether a message that was received is to be answered still."""
        if not self._has_own("admits"):
            return True
        return bool(self._island.call_now(self._channel.admits, message, patience=_QUICKLY))

    def on_answered(self, message: ChannelMessage, replies: Sequence[ChannelMessage]) -> None:
        """Told that a message is done with; nobody waits until the channel has heard it."""
        if self._has_own("on_answered"):
            self._island.tell(self._channel.on_answered, message, replies)

    def attending(self, message: ChannelMessage) -> IslandManager | None:
        """What is open while a turn answers `message`."""
        if not self._has_own("attending"):
            return None
        return IslandManager(self._island, functools.partial(self._channel.attending, message))

    async def prepare(self, message: ChannelMessage) -> ChannelMessage:
        """The message as its turn should see it."""
        prepared = await self._island.call(self._channel.prepare, message) if self._has_own("prepare") else message
        assert isinstance(prepared, ChannelMessage)
        return prepared

    async def ask(self, question: Question, message: ChannelMessage) -> bool:
        """Put a question to the person who sent `message`."""
        return self._has_own("ask") and await self._island.call(self._channel.ask, question, message) is True

    async def show_question(self, question: ShownQuestion) -> str:
        """Show a question that is answered later."""
        return str(await self._island.call(self._channel.show_question, question)) if self.shows_questions else ""

    async def close_question(self, question: ShownQuestion, words: str) -> None:
        """Let what shows a question say what came of it."""
        await self._island.call(self._channel.close_question, question, words)


class _Begun(trio.TaskStatus[None]):
    """Tells trio, from the thread of a loop, that a channel has begun."""

    def __init__(self, token: trio.lowlevel.TrioToken, task_status: trio.TaskStatus[None]) -> None:
        self._token = token
        self._task_status = task_status

    def started(self, value: None = None) -> None:
        self._token.run_sync_soon(self._task_status.started)
