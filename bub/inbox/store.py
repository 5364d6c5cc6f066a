"""What the inbox asks of a store: the protocol `InboxStore`, and the values that go through it.

Nothing above this module knows which store it is (DESIGN §13). One contract test suite holds for all of them:
`tests/test_inbox_stores.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from bub.approval import NotedCall
from bub.base.surfaces import Surface
from bub.channels.message import ChannelMessage
from bub.errors import BubError
from bub.inbox.questions import AskedQuestion
from bub.inbox.schedules.firing import Firing, Followed
from bub.inbox.schedules.own import OwnSchedule

Id: TypeAlias = int
"""Names a message or a reply in its store. Nobody reads more from it than its order: what came later is greater."""

Token: TypeAlias = str
"""Names a claim. Nobody reads anything from it."""


class MailboxError(BubError):
    """The inbox cannot be used, or a message cannot be kept in it."""


class FencedError(MailboxError):
    """A claim is over: what it had claimed may be somebody else's by now, and nothing was changed."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """How far the turn of messages has come that were moved to the partition of their session.

    They are answered as one: `first` is the id of the first of them there, `number` how many they are. `values` is the
    JSON of what the stages above the session have made.
    """

    session_id: str
    values: bytes
    first: Id
    number: int


@dataclass(frozen=True, slots=True)
class Received:
    """A message in the inbox, received `at` a Unix time; `attempts` counts the turns that were begun for it.

    `surface` is who handed it over, which no store keeps but of a `firing` of a schedule. `has_calls` is whether calls
    were noted for it before. One that another worker has moved here has an `arrival`.
    """

    id: Id
    message: ChannelMessage
    attempts: int
    at: float
    surface: Surface = Surface.CHANNEL
    has_calls: bool = False
    firing: Firing | None = None
    arrival: Arrival | None = None


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A reply in the outbox, to be delivered at the Unix time `not_before` (0: at once); `attempts` have failed."""

    id: Id
    message: ChannelMessage
    attempts: int
    not_before: float


@dataclass(frozen=True, slots=True)
class Claim:
    """What waited in some partitions: `messages` for their turns, `replies` for their delivery, both in order.

    It is the claimer's until the store is closed. `token` proves it.
    """

    token: Token
    messages: tuple[Received, ...]
    replies: tuple[Outgoing, ...]


Kind: TypeAlias = Literal["message", "reply"]
"""What lies in an inbox: what came in, and what goes out."""


@dataclass(frozen=True, slots=True)
class InboxEntry:
    """A message or a reply as people look through them; `message` is None if it cannot be read.

    A dead letter has a `reason`, which says why it was set aside; what waits has none.
    """

    kind: Kind
    id: int
    channel: str
    chat_id: str
    at: float
    attempts: int
    reason: str | None
    message: ChannelMessage | None


class InboxStore(Protocol):
    """Keeps messages until they are answered, and replies until they are delivered.

    What a method was asked is kept for good when it returns. Cancelled before it has begun, a method does nothing;
    once begun it is done to its end. Everything raises `MailboxError` if the store cannot be used; whoever is given a
    `token` of a claim that is over raises `FencedError` and does nothing. Without a token the caller vouches for it.
    """

    async def open(self) -> None:
        """Open the store, so that messages can be received and claimed."""

    async def close(self) -> None:
        """Close the store once everything that was asked is done; every claim is over."""

    async def receive(self, message: ChannelMessage) -> Received | None:
        """Keep a message, as one of the partition's claim; None if one with the same `once` was received before."""

    async def still_waits(self, message: ChannelMessage) -> bool:
        """Whether the message that was received before under this `once`, in the same chat, is not done with yet.

        One that was moved to another partition meanwhile may be called done with.
        """

    async def claim(self, partitions: Collection[str]) -> Claim:
        """Take what waits in partitions, which are names of channels; what cannot be read is set aside.

        Claiming again gives what waits by now, under the same token.
        """

    async def fetch(self, ids: Sequence[Id]) -> list[Received]:
        """Give those of these messages that still wait, in order; what cannot be read is set aside."""

    async def begin(self, ids: Sequence[Id], *, token: Token | None = None) -> Sequence[NotedCall]:
        """Count one attempt more for each message, before its turn begins; give the calls noted for it before."""

    async def give_back(self, ids: Sequence[Id], *, token: Token | None = None) -> None:
        """Count one attempt less: the turn was cancelled, and is not to blame."""

    async def finish(
        self, ids: Sequence[Id], replies: Sequence[ChannelMessage] = (), *, token: Token | None = None
    ) -> list[Outgoing]:
        """Take messages out and put their replies into the outbox, all or nothing; nothing if they were out already.

        What was asked and called for them is forgotten.
        """

    async def set_aside(
        self, ids: Sequence[Id], reason: str, replies: Sequence[ChannelMessage] = (), *, token: Token | None = None
    ) -> list[Outgoing]:
        """Make dead letters of messages, and put what is replied into the outbox, all or nothing."""

    async def ask(self, question: AskedQuestion, *, other_than: Collection[str] = ()) -> AskedQuestion:
        """Keep a question of a turn, or take up one of an earlier process that is bound to just the same."""

    async def open_questions(self) -> list[AskedQuestion]:
        """Give the questions that nobody has answered yet."""

    async def find_question(self, name: str) -> AskedQuestion | None:
        """Give a question by what people name it by; None for one that is not there."""

    async def answer(self, name: str, is_yes: bool, by: str) -> bool:
        """Keep what a person said to an open question; says whether it was open."""

    async def end_question(self, name: str) -> None:
        """Let a question be over whose answer nobody waits for."""

    async def note_shown(self, name: str, shown: str) -> None:
        """Keep the channel's name for what shows a question."""

    async def begin_call(self, ids: Sequence[Id], call: NotedCall, approval: str = "") -> None:
        """Note for each message that a call for it begins and use up its yes, all or nothing.

        Raises `NotSpentError` without one.
        """

    async def end_call(self, ids: Sequence[Id], call: NotedCall) -> None:
        """Note for each message that a call for it has ended."""

    async def keep_draft(self, id: Id, draft: str) -> None:  # noqa: A002 (what a message in a store is known by)
        """Keep the channel's name for what shows the answer to a message."""

    async def keep_reply_draft(self, id: Id, draft: str) -> None:  # noqa: A002 (as above)
        """Keep what the channel notes of a reply that it is sending."""

    async def follow(self, name: str, rule: str, now: float) -> Followed:
        """Give how far a schedule is; one that is new, or has another rule than before, begins at the time `now`."""

    async def unfollow(self, name: str) -> None:
        """Forget how far a schedule is; what has fired stays known."""

    async def followed(self) -> list[Followed]:
        """Give how far each schedule is, by name."""

    async def fire(self, firing: Firing, message: ChannelMessage, *, until: float, missed: int) -> Received | None:
        """Claim a firing, keep its message and note what is decided `until` a time, all or nothing.

        None if somebody has claimed it before; what is decided is noted all the same.
        """

    async def add_schedule(self, schedule: OwnSchedule, most: int) -> OwnSchedule | None:
        """Keep a schedule of the agent, and give it its name; None if its profile has `most` of them already."""

    async def own_schedules(self) -> list[OwnSchedule]:
        """Give the schedules of the agent, the oldest first."""

    async def remove_schedule(self, name: str) -> bool:
        """Remove a schedule of the agent; False if there is none of that name."""

    async def pass_over(self, name: str, *, until: float, missed: int) -> None:
        """Note that every moment of a schedule up to a time is decided, and how many of them did not fire."""

    def remember(self, channel: str, name: str, value: str) -> None:
        """Keep a note of a channel in place of the last one of this name, before whatever else is kept next."""

    async def recall(self, channel: str) -> dict[str, str]:
        """Give the notes of a channel by their names; only the newest are remembered."""

    def as_kept(self, message: ChannelMessage) -> ChannelMessage:
        """A message as it comes out again. Raises `MailboxError` for one that cannot be kept."""

    async def mark_delivered(self, id: Id) -> None:  # noqa: A002
        """Take a reply out of the outbox."""

    async def put_off(self, id: Id, *, not_before: float) -> None:  # noqa: A002
        """Count a delivery that failed; the next one is for a Unix time."""

    async def undeliverable(self, id: Id, reason: str) -> None:  # noqa: A002
        """Make a dead letter of a reply."""

    async def list_entries(self) -> list[InboxEntry]:
        """Give all messages, then all replies, each in order, those that were set aside included."""

    async def retry(self, kind: Kind, ids: Sequence[Id]) -> None:
        """Let dead letters wait again, as if nothing had been tried."""

    async def drop(self, kind: Kind, ids: Sequence[Id]) -> None:
        """Remove dead letters for good."""

    async def was_requeued(self) -> bool:
        """Whether somebody else changed what waits since this was last asked, or since the opening."""
