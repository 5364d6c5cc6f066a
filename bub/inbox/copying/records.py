"""What a copy carries of an inbox: everything that two gateways have to agree on, without the ids of any store.

Questions and calls go with the message that they belong to: those of a message that is gone, nobody waits for.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from hashlib import sha256
from typing import Any, TypeAlias

import msgspec
from msgspec import structs

from bub.approval import NotedCall
from bub.inbox.questions import AskedQuestion
from bub.inbox.texts import MessageTexts


class Moved(msgspec.Struct, frozen=True):
    """How far the turn of a message has come that was moved to the partition of its session (`Arrival`).

    Those of a `session_id` that have the same `group` are answered as one, `number` of them.
    """

    session_id: str
    values: str
    group: int
    number: int


class Message(msgspec.Struct, frozen=True):
    """A message, as the text of its `body`; one with a `reason` was set aside. `firing` is as `Firing` has it."""

    channel: str
    chat_id: str
    at: float
    body: str
    draft: str
    attempts: int
    reason: str | None = None
    firing: tuple[str, float, str | None, bool] | None = None
    calls: tuple[NotedCall, ...] = ()
    questions: tuple[AskedQuestion, ...] = ()
    moved: Moved | None = None


class Reply(msgspec.Struct, frozen=True):
    """A reply, as the text of its `body`, which has what its channel noted of it; one with a `reason` was set aside."""

    channel: str
    chat_id: str
    at: float
    body: str
    attempts: int
    not_before: float
    reason: str | None = None


class Taken(msgspec.Struct, frozen=True):
    """The name of a message that came in and is never to be taken again."""

    channel: str
    name: str


class Note(msgspec.Struct, frozen=True):
    """What a channel remembers under a name."""

    channel: str
    name: str
    value: str


class Progress(msgspec.Struct, frozen=True):
    """How far a schedule is: every moment up to `since` is decided, by this `rule`."""

    schedule: str
    rule: str
    since: float
    missed: int


class Fired(msgspec.Struct, frozen=True):
    """A moment of a schedule that has fired."""

    schedule: str
    at: float


class Own(msgspec.Struct, frozen=True):
    """A schedule that the agent has made, as the text of its `body`; `number` is its name."""

    number: int
    profile: str
    body: str


class Numbers(msgspec.Struct, frozen=True):
    """Up to which number questions and schedules of the agent have names, so that none is given twice."""

    questions: int
    schedules: int


InboxRecord: TypeAlias = Message | Reply | Taken | Note | Progress | Fired | Own | Numbers

MESSAGES, REPLIES, SET_ASIDE = "messages", "replies", "set aside"

_WORDS: dict[type, str] = {
    Taken: "names of messages that came",
    Note: "notes of channels",
    Progress: "schedules",
    Fired: "firings",
    Own: "schedules of the agent",
}


class Tally:
    """Counts what an inbox has, and digests it: two are equal only if each chat has the same, in the same order."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """How many there are, by what they are, for people."""
        self._texts = MessageTexts()
        self._places: Counter[tuple[str, ...]] = Counter()
        self._sum = 0

    def add(self, record: InboxRecord) -> None:
        """Add one, behind those of the same chat that came before."""
        if isinstance(record, Numbers):
            return
        self.counts[_kind_of(record)] += 1
        if isinstance(record, Message):
            self.counts["questions"] += len(record.questions)
            self.counts["calls"] += len(record.calls)
        place = self._place_of(record)
        if place is not None:
            self._places[place] += 1
        told = [type(record).__name__, place, self._places[place] if place else 0, _without_numbers(record)]
        self._sum += int.from_bytes(sha256(msgspec.msgpack.encode(told)).digest(), "big")

    @property
    def digest(self) -> str:
        """What names all of it."""
        return f"{self._sum % (1 << 256):064x}"

    def _place_of(self, record: InboxRecord) -> tuple[str, ...] | None:
        """Return among which ones a record has an order; None if it has none."""
        match record:
            case Message(reason=None, moved=Moved(session_id=session_id)):
                return "session", session_id
            case Message(reason=None):
                message = self._texts.read_or_none(record.body)
                return "chat", message.origin if message is not None else ""
            case Reply(reason=None):
                return "reply", record.channel, record.chat_id
            case Note():
                return "note", record.channel
            case _:
                return None


def without_move(record: InboxRecord) -> InboxRecord:
    """Return a record whose turn begins at its first stage, as that of a message which just came."""
    return structs.replace(record, moved=None) if isinstance(record, Message) else record


def _kind_of(record: InboxRecord) -> str:
    match record:
        case Message(reason=None):
            return MESSAGES
        case Reply(reason=None):
            return REPLIES
        case Message() | Reply():
            return SET_ASIDE
        case _:
            return _WORDS[type(record)]


def _without_numbers(record: InboxRecord) -> Any:
    """Return a record without what is another in each store."""
    match record:
        case Message():
            asked = tuple(
                replace(one, turn=0, approval=structs.replace(one.approval, id="")) for one in record.questions
            )
            moved = structs.replace(record.moved, group=0) if record.moved is not None else None
            return structs.replace(record, channel="", chat_id="", questions=asked, moved=moved)
        case Reply():
            return structs.replace(record, channel="", chat_id="")
        case Own():
            return structs.replace(record, number=0)
        case _:
            return record
