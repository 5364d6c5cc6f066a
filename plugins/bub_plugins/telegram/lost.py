"""Messages that may have arrived though nobody heard so: the connection was cut meanwhile, or the process killed."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import NamedTuple

_MANY_CHATS = 10_000
_MANY_IDS = 32
_MANY_IDS_TOGETHER = 1_000
_SOON = 4
_SOON_TOGETHER = 8
_FIRST_OF_SUPERGROUPS = -1_000_000_000_000
_LOST, _SENT = "lost", "sent"


class Lost(NamedTuple):
    """A message that may be in a chat: if so, its id comes soon after one of these.

    They are the newest of the chat, and the newest of all chats that have one count together.
    """

    after: tuple[int, ...]

    @classmethod
    def named(cls, draft: str) -> Lost | None:
        """Return what the `draft` of a message says of one that was lost; None if it does not."""
        word, _, numbers = draft.partition(":")
        found = numbers.split(",")
        return cls(tuple(map(int, found))) if word == _LOST and all(one.isdecimal() for one in found) else None

    @property
    def name(self) -> str:
        """What stands as the `draft` of a message until the id is known."""
        return f"{_LOST}:{','.join(map(str, self.after))}"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a reply has come: so many of its messages have arrived, and the next one may have, too."""

    done: int
    lost: Lost | None = None

    @classmethod
    def named(cls, draft: str) -> Progress | None:
        """Return what the `draft` of a reply says of it; None if it says something else."""
        word, _, rest = draft.partition(":")
        done, _, lost = rest.partition("+")
        return cls(int(done), Lost.named(lost)) if word == _SENT and done.isdecimal() else None

    @property
    def name(self) -> str:
        """What stands as the `draft` of the reply while it is sent."""
        return f"{_SENT}:{self.done}" + (f"+{self.lost.name}" if self.lost is not None else "")


class KnownMessages:
    """The ids of the newest messages of each chat: one of the bot's that is newer than all of them was lost.

    A chat is known once a message of it came in, or went out. `notes` are what earlier processes knew: the newest of
    each chat. `keep` is told each newer one, and has it on the disk before anything else is sent, so that what an
    earlier process sent is never taken for a message that was lost.
    """

    def __init__(self, notes: Mapping[str, str], keep: Callable[[str, str], None]) -> None:
        self._newest = {chat: int(number) for chat, number in notes.items() if number.isdecimal()}
        self._keep = keep
        self._ids: OrderedDict[str, deque[int]] = OrderedDict()
        together = sorted(number for chat, number in self._newest.items() if _counts_with_others(chat))
        self._together = deque(together, maxlen=_MANY_IDS_TOGETHER)
        self._newest_together = max(together, default=0)

    def note(self, chat: str, message_id: int) -> None:
        """Remember a message of a chat."""
        ids = self._ids.pop(chat, None) or deque(maxlen=_MANY_IDS)
        self._ids[chat] = ids
        if message_id in ids:
            return
        ids.append(message_id)
        if _counts_with_others(chat):
            self._together.append(message_id)
            self._newest_together = max(self._newest_together, message_id)
        newest = self._newest.pop(chat, 0)
        self._newest[chat] = max(newest, message_id)
        if message_id > newest:
            self._keep(chat, str(message_id))
        for known in (self._ids, self._newest):
            if len(known) > _MANY_CHATS:
                del known[next(iter(known))]

    def lost(self, chat: str) -> Lost | None:
        """Return how to find a message that is about to be sent, should it be lost; None if the chat is not known."""
        newest = self._newest.get(chat)
        if newest is None:
            return None
        has_newer = _counts_with_others(chat) and self._newest_together > newest
        return Lost((newest, self._newest_together) if has_newer else (newest,))

    def candidates(self, chat: str, lost: Lost) -> Iterator[int]:
        """Return the ids that a lost message may have, the likely ones first."""
        own, together = self._ids.get(chat, ()), {*self._together, *self._ids.get(chat, ())}
        newest, *newer = lost.after
        found = [*islice((one for one in count(newest + 1) if one not in own), _SOON)]
        for start in newer:
            found += islice((one for one in count(start + 1) if one not in together), _SOON_TOGETHER)
        return iter(dict.fromkeys(found))


def _counts_with_others(chat: str) -> bool:
    """Return whether a chat shares the numbers of its messages: a bot has one count for people and small groups."""
    return chat.removeprefix("-").isdecimal() and int(chat) > _FIRST_OF_SUPERGROUPS
