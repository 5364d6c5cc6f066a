"""Messages that may have arrived though nobody heard so: the connection was cut meanwhile, or the process killed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import NamedTuple

_MANY_CHATS = 10_000
_MANY_RECENT = 1_000
_SOON = 8
_SOON_TOGETHER = 8
_MOST_TOGETHER = 64
_RECENT = "recent/"
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
        """What is shown as the `draft` of a message until the id is known."""
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
        """What is shown as the `draft` of the reply while it is sent."""
        return f"{_SENT}:{self.done}" + (f"+{self.lost.name}" if self.lost is not None else "")


class KnownMessages:
    """The newest messages of each chat: one of the bot's that is newer than all of them was lost.

    A chat is known once a message of it came in, or went out. `notes` are what earlier processes knew. `keep` gets
    what the next one is to know, and has it on the disk before anything else is kept, so that what an earlier process
    sent is never taken for a message that was lost.

    What the bot has sent is kept with `settle`, in one step with what is noted of the answer or reply that it is: if
    it were on the disk before that, an answer would be looked for everywhere but where it is.
    """

    def __init__(self, notes: Mapping[str, str], keep: Callable[[str, str], None]) -> None:
        self._keep = keep
        self._newest = {chat: int(number) for chat, number in notes.items() if number.isdecimal()}
        self._newest_together = max(
            (self._newest[chat] for chat in self._newest if _counts_with_others(chat)), default=0
        )
        self._recent: deque[tuple[str, int]] = deque(maxlen=_MANY_RECENT)
        self._slot = 0
        self._unsettled: dict[str, list[int]] = {}
        for name, note in notes.items():
            chat, _, number = note.rpartition(":")
            if name.startswith(_RECENT) and number.isdecimal():
                self._recent.append((chat, int(number)))
                self._slot = int(name.removeprefix(_RECENT))

    def note(self, chat: str, message_id: int) -> None:
        """Remember a message of a chat, and keep that."""
        if self._is_new(chat, message_id):
            self._keep_note(chat, message_id)

    def note_sent(self, chat: str, message_id: int) -> None:
        """Remember a message that the bot has sent, to be kept when it is settled what it is."""
        if self._is_new(chat, message_id):
            self._unsettled.setdefault(chat, []).append(message_id)

    def settle(self, chat: str) -> None:
        """Keep what was sent to a chat, with whatever is kept next."""
        for message_id in self._unsettled.pop(chat, ()):
            self._keep_note(chat, message_id)

    def _is_new(self, chat: str, message_id: int) -> bool:
        """Remember a message, and return whether it was not known."""
        if (chat, message_id) in self._recent:
            return False
        self._recent.append((chat, message_id))
        self._newest[chat] = max(self._newest.pop(chat, 0), message_id)
        if _counts_with_others(chat):
            self._newest_together = max(self._newest_together, message_id)
        if len(self._newest) > _MANY_CHATS:
            del self._newest[next(iter(self._newest))]
        return True

    def _keep_note(self, chat: str, message_id: int) -> None:
        self._slot = (self._slot + 1) % _MANY_RECENT
        self._keep(f"{_RECENT}{self._slot}", f"{chat}:{message_id}")
        self._keep(chat, str(self._newest.get(chat, message_id)))

    def lost(self, chat: str) -> Lost | None:
        """Return how to find a message that is about to be sent, if it is lost; None if the chat is not known."""
        newest = self._newest.get(chat)
        if newest is None:
            return None
        has_newer = _counts_with_others(chat) and self._newest_together > newest
        return Lost((newest, self._newest_together) if has_newer else (newest,))

    def candidates(self, chat: str, lost: Lost) -> list[int]:
        """Return the ids that a lost message may have, the likely ones first."""
        own = {number for where, number in self._recent if where == chat}
        found = [*islice((one for one in count(lost.after[0] + 1) if one not in own), _SOON)]
        if _counts_with_others(chat):
            known = own | {number for where, number in self._recent if _counts_with_others(where)}
            start = lost.after[-1]
            end = max(self._newest_together, start) + _SOON_TOGETHER
            found += [one for one in range(start + 1, end + 1) if one not in known][:_MOST_TOGETHER]
        return list(dict.fromkeys(found))


def _counts_with_others(chat: str) -> bool:
    """Return whether a chat shares the numbers of its messages: a bot has one count for people and small groups."""
    return chat.removeprefix("-").isdecimal() and int(chat) > _FIRST_OF_SUPERGROUPS
