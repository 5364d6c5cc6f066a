"""Requests that wait for the answer to their message: its events as they come, and its replies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio

from bub.channels import ChannelMessage
from bub.errors import BubError
from bub.log import log_warning
from bub.streaming import StreamEvent
from bub_plugins.http.refusal import Refusal

PATIENCE = 10.0
"""How long, in seconds, a message may take to be kept."""

DRAFT = "http"
"""If there is a draft, the end of a turn comes with a reply in any case, also a blank one: nobody waits for ever."""

_MOST_WAITING = 1_000
"""How many events wait for who does not read them, before text pieces that follow each other are joined."""
_NEVER_DROPPED = ("text", "error", "final")
_MOST_TOLD = 1_000
"""How many messages are remembered whose request got the replies, until these reach `send`."""


class Asker:
    """One request that waits. Its events are those that `on_event` of the channel tells: what may be shown."""

    def __init__(self, message: ChannelMessage) -> None:
        self.message = message
        self.replies: Sequence[ChannelMessage] = ()
        self.is_told = False
        """Whether who asked has got the replies, as far as that can be known. Set it once they are written."""
        self.is_late = False
        """Whether the message came before and is done with, so that this request is told nothing more."""
        self.over = trio.Event()
        self._events: list[StreamEvent] = []
        self._news = trio.Event()
        self._answered = trio.Event()

    @property
    def is_answered(self) -> bool:
        """Whether the turn is over, so that `replies` are all there are."""
        return self._answered.is_set()

    async def answered(self) -> Sequence[ChannelMessage]:
        """Wait for the end of the turn; its replies to this request, none if nobody answered it."""
        await self._answered.wait()
        return self.replies

    async def events(self) -> list[StreamEvent]:
        """Wait for events; those that came since, and none once all have been given and the turn is over."""
        while not self._events and not self.is_answered:
            await self._news.wait()
        came, self._events, self._news = self._events, [], trio.Event()
        return came

    def tell(self, event: StreamEvent) -> None:
        """Take an event."""
        self._events.append(event)
        if len(self._events) >= _MOST_WAITING:
            self._events = _joined(self._events)
            if len(self._events) >= _MOST_WAITING // 2:
                self._events = _joined([one for one in self._events if one.kind in _NEVER_DROPPED])
        self._news.set()

    def end(self, replies: Sequence[ChannelMessage]) -> None:
        """Take the replies: the turn is over."""
        self.replies = replies
        self._answered.set()
        self._news.set()


class Askers:
    """All requests that wait, at most `most` at once; `hand_over` keeps a message on the disk."""

    def __init__(self, name: str, hand_over: Callable[[Any], Awaitable[bool | None]], most: Callable[[], int]) -> None:
        self._name = name
        self._hand_over = hand_over
        self._most = most
        self._waiting: dict[tuple[str, str], list[Asker]] = {}
        self._count = 0
        self._told: dict[tuple[str, str], int] = {}

    @property
    def has_room(self) -> bool:
        """Whether one more request may wait."""
        return self._count < self._most()

    async def keep(self, message: ChannelMessage) -> bool:
        """Have a message kept: it is on the disk when this returns; says whether a turn of it follows.

        Raises `Refusal` (503) if it cannot be kept.
        """
        try:
            with trio.fail_after(PATIENCE):
                return await self._hand_over(message) is not False
        except (BubError, trio.TooSlowError) as error:
            log_warning(f"{self._name}.not_kept", error=error)
            raise Refusal.later(503, "Bub cannot keep this message now", 10) from None

    @asynccontextmanager
    async def asking(self, message: ChannelMessage) -> AsyncIterator[Asker]:
        """Have a message kept, and wait for its answer inside. Raises `Refusal` (503) if that cannot be now.

        The turn goes on if the block is left early: then its replies go to `send` of the channel.
        """
        if not self.has_room:
            raise Refusal.later(503, "too many requests wait for their answers", 5)
        asker, key = Asker(message), (message.chat_id, message.message_id)
        self._waiting.setdefault(key, []).append(asker)
        self._count += 1
        try:
            asker.is_late = not await self.keep(message) and not asker.is_answered
            yield asker
        finally:
            self._count -= 1
            self._waiting[key].remove(asker)
            if not self._waiting[key]:
                del self._waiting[key]
            if asker.is_told and asker.replies:
                self._told[key] = max(self._told.get(key, 0), len(asker.replies))
                if len(self._told) > _MOST_TOLD:
                    del self._told[next(iter(self._told))]
            asker.over.set()

    # What the channel passes on.

    def tell(self, event: StreamEvent, message: ChannelMessage) -> None:
        """Tell those that wait for the answer to a message of an event."""
        for asker in self._waiting.get((message.chat_id, message.message_id), ()):
            asker.tell(event)

    def end(self, message: ChannelMessage, replies: Sequence[ChannelMessage]) -> None:
        """Tell those that wait for the answer to a message that its turn is over."""
        own = replies_to(message, replies)
        for asker in self._waiting.get((message.chat_id, message.message_id), ()):
            asker.end(own)

    def find_unanswered(self, reply: ChannelMessage) -> Iterator[ChannelMessage]:
        """Yield the messages that a reply answers, if requests wait that do not know yet that their turn is over.

        So it is if another gateway took the turn: the reply is how this one learns of its end.
        """
        for message_id in (reply.answers, *reply.also_answers):
            for asker in self._waiting.get((reply.chat_id, message_id), ()):
                if not asker.is_answered:
                    yield asker.message
                    break

    async def was_told(self, reply: ChannelMessage) -> bool:
        """Tell whether a request that waited has got a reply, once none waits for it any more."""
        key = (reply.chat_id, reply.answers)
        for asker in list(self._waiting.get(key, ())):
            await asker.over.wait()
        left = self._told.pop(key, 0)
        if left > 1:
            self._told[key] = left - 1
        return left > 0


def replies_to(message: ChannelMessage, replies: Sequence[ChannelMessage]) -> list[ChannelMessage]:
    """Return those replies to a message that go to its chat."""
    address = (message.channel, message.chat_id)
    return [one for one in replies if (one.channel, one.chat_id) == address and not is_no_answer(one)]


def is_no_answer(reply: ChannelMessage) -> bool:
    """Whether a reply only says that nobody answers, as the draft of its message has asked for."""
    return bool(reply.draft) and not reply.content and not reply.media


def _joined(events: Sequence[StreamEvent]) -> list[StreamEvent]:
    """Join texts that follow each other."""
    joined: list[StreamEvent] = []
    pieces: list[str] = []
    for event in [*events, StreamEvent("end")]:
        if event.kind == "text":
            pieces.append(str(event.data.get("delta", "")))
            continue
        if pieces:
            joined.append(StreamEvent.text("".join(pieces)))
            pieces = []
        joined.append(event)
    return joined[:-1]
