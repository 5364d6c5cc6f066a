"""Messages of the inbox that are answered as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import trio

from bub.approval import NotedCall
from bub.base.clients.request import ClientRequest
from bub.base.scopes import Scope
from bub.base.surfaces import Surface, Writer
from bub.channels.channel import Channel
from bub.channels.message import ChannelMessage, joined
from bub.envelope import Envelope
from bub.inbox.framework import MessageTurn
from bub.inbox.store import Id, Received
from bub.log import log_exception
from bub.streaming import StreamEvent


@dataclass(eq=False, slots=True)
class Batch:
    """Messages of the inbox that are answered as one: how far that has come, and what it has brought."""

    items: list[Received]
    message: ChannelMessage
    """The one message that they become; with its session once that is known."""
    admits: Callable[[Received], bool]
    """Whether a message would still be let in."""
    turn: MessageTurn = field(init=False)
    """Its turn; gone once that is closed and the batch is put away."""
    steers: Batch | None = None
    """The batch whose turn may take this one while it waits."""
    steered: list[Batch] = field(default_factory=list)
    """Those that wait so that this one's turn may take them."""
    taken: list[ChannelMessage] = field(default_factory=list)
    """The messages of those that its turn has taken."""
    replies: list[ChannelMessage] = field(default_factory=list)
    end: StreamEvent = field(default_factory=lambda: StreamEvent("final"))
    """The last event of its answer."""
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    begun: list[Id] = field(default_factory=list)
    """The messages for which an attempt was counted."""
    earlier: Sequence[NotedCall] = ()
    """The calls that an earlier process noted for them."""
    calls: dict[str, bool] = field(default_factory=dict)
    """The calls of its turn that were noted here, each with whether it may still run."""
    is_running: bool = False
    """Whether its session is its own, so that it is being answered."""
    is_taken: bool = False
    """Whether another turn has taken it, and answers it."""
    is_cancelled: bool = False
    """Whether nobody wants an answer any more, so that it is done with."""
    is_over: bool = False
    """Whether its replies are on their way, so that one that comes now goes by itself."""
    is_done: bool = False
    """Whether its messages have left the inbox."""

    def take(self) -> list[Envelope]:
        """What came in since and is meant for this turn; it is answered by it from now on (BEHAVIOURS C21)."""
        taken: list[Envelope] = []
        while self.steered and not self.is_over:
            batch = self.steered.pop(0)
            if not batch.is_admitted:
                continue  # it goes on waiting, and is refused once the session is its own
            batch.is_taken = True
            batch.scope.cancel()  # it waits no longer, and its own turn cleans up
            self.items += batch.items
            self.taken.append(batch.message)
            taken.append(batch.turn.message)
        return taken

    def stop_steering(self) -> None:
        """Wait no more for the turn that may take it."""
        if self.steers is not None and self in self.steers.steered:
            self.steers.steered.remove(self)

    async def attend(self, channel: Channel, attending: Scope) -> None:
        """Let the channel show that somebody is at it; that it cannot does not keep the answer."""
        try:
            manager = channel.attending(self.message)
            if manager is not None:
                await attending.enter(manager)
        except Exception as error:  # noqa: BLE001 (it is a courtesy)
            log_exception("channel.attending_failed", error, channel=channel.name)

    async def complete(self, channel: Channel, came: Envelope) -> Envelope:
        """Let the channel complete the message; the channel cannot change the place it is answered at."""
        message: Any = await channel.prepare(self.message)
        if not isinstance(message, ChannelMessage):
            raise TypeError(f"`prepare` of the channel `{channel.name}` must return a message, not {message!r:.80}")
        asked = self.message
        self.message = replace(
            message, channel=asked.channel, chat_id=asked.chat_id, session_id=asked.session_id, draft=asked.draft
        )
        return replace(self.message, session_id=came.session_id)

    def complete_drafts(self, replies: Sequence[ChannelMessage]) -> Sequence[ChannelMessage]:
        """Its replies, those that complete drafts included: a message that its turn has taken may have one, too.

        The first reply to its chat names the messages of this chat that its turn has taken.
        """
        answered = {(one.channel, one.chat_id, one.answers) for one in replies}
        left = [one for one in self.taken if (one.channel, one.chat_id, one.message_id) not in answered]
        chat = self.message.channel, self.message.chat_id
        also = tuple(one.message_id for one in left if (one.channel, one.chat_id) == chat)
        replies = with_draft(replies, self.message, also)
        return [*replies, *(_no_answer(one) for one in left if one.draft)]

    def tell(self, channel: Channel, event: StreamEvent) -> Any:
        """Tell the channel of an event of the answer."""
        if event.kind == "final":
            self.end = event
        return channel.on_event(event, self.message)

    def shows(self, message: ChannelMessage) -> bool:
        """Whether a message is the one that is answered here."""
        asked = self.message
        return (asked.channel, asked.chat_id, asked.message_id or asked.content) == (
            message.channel,
            message.chat_id,
            message.message_id or message.content,
        )

    @property
    def writers(self) -> list[Writer]:
        """Who wrote its messages, those among them that it has taken meanwhile."""
        return [Writer(item.surface, item.message.channel, item.message.sender_id) for item in self.items]

    @property
    def is_admitted(self) -> bool:
        """Whether all its messages would still be let in."""
        return all(self.admits(item) for item in self.items)

    @property
    def request(self) -> ClientRequest | None:
        """What a program brings that asks as it would ask a model; None for any other message."""
        return ClientRequest.read(self.items[0].message.request)

    @property
    def profile(self) -> str | None:
        """The profile that a schedule or its channel has named for it; None if it has to be found."""
        return profile_named(self.items[-1])

    @property
    def ids(self) -> list[Id]:
        """The ids of its messages."""
        return [item.id for item in self.items]


def profile_named(item: Received) -> str | None:
    """The profile that a schedule or its channel has named for a message."""
    return item.firing.profile if item.firing is not None else item.message.profile or None


def as_one(batch: Sequence[Received]) -> ChannelMessage:
    """Return the message that a batch becomes, with what an interrupted turn left of its answer."""
    message = joined([item.message for item in batch])
    draft = next((item.message.draft for item in batch if item.message.draft), "")
    return replace(message, draft=draft)


def surface_of(items: Sequence[Received]) -> Surface:
    """Who handed over what a turn answers; what only one of several typed, nobody typed."""
    surfaces = {item.surface for item in items}
    return surfaces.pop() if len(surfaces) == 1 else Surface.CHANNEL


def tell_answered(
    channels: Mapping[str, Channel], items: Iterable[Received], replies: Sequence[ChannelMessage]
) -> None:
    """Tell the channel of each message that it is done with; one that fails gets the replies all the same."""
    for item in items:
        channel = channels[item.message.channel]
        try:
            channel.on_answered(item.message, replies)
        except Exception as error:  # noqa: BLE001 (a plugin's channel raises anything; the replies are kept by now)
            log_exception("channel.on_answered_failed", error, channel=channel.name)


def with_draft(
    replies: Sequence[ChannelMessage], asked: ChannelMessage, also: Sequence[str] = ()
) -> Sequence[ChannelMessage]:
    """The replies to a message; the first one to its chat completes what was shown while it was made.

    That one answers the messages `also`, too. If there is none, a blank one takes its place, so that the channel puts
    away what was shown.
    """
    for index, reply in enumerate(replies):
        if (reply.channel, reply.chat_id) == (asked.channel, asked.chat_id):
            first = replace(reply, draft=reply.draft or asked.draft, also_answers=also)
            return [*replies[:index], first, *replies[index + 1 :]]
    return [*replies, _no_answer(asked)] if asked.draft else replies


def _no_answer(asked: ChannelMessage) -> ChannelMessage:
    nothing = ChannelMessage(asked.channel, asked.chat_id, "", asked.session_id, answers=asked.message_id)
    return replace(nothing, draft=asked.draft)


def may_steer(batch: Batch, other: Batch) -> bool:
    """Whether the turn of another batch may take a message: only if no check and no other profile would be passed by.

    What a turn takes goes to the model as it is, so a message that a gate is to judge has a turn of its own, and one
    of a profile that may do less, or more, and one whose turn was interrupted, since calls are noted for it. A person
    and a schedule never share a turn, and neither do two programs, each of which waits for an answer of its own.
    """
    if any(item.attempts or item.has_calls or item.firing or item.message.request for item in batch.items):
        return False
    if any(item.firing or item.message.request for item in other.items):
        return False
    return batch.turn.profile.name == other.turn.profile.name and not batch.turn.is_judged
