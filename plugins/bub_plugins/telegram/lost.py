"""Messages that may have arrived though nobody heard so: the connection was cut meanwhile, or the process killed."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import NamedTuple

_MANY_CHATS = 1_000
_MANY_IDS = 32
_SOON = 4
_WORD = "lost"


class Lost(NamedTuple):
    """A message that may be in a chat: if so, its id comes soon after one of these.

    They are the newest of the chat, and the newest of all private chats, which have one count for a bot.
    """

    after: tuple[int, ...]

    @classmethod
    def named(cls, draft: str) -> Lost | None:
        """Return what the `draft` of a message says of one that was lost; None if it does not."""
        word, _, numbers = draft.partition(":")
        found = numbers.split(",")
        return cls(tuple(map(int, found))) if word == _WORD and all(one.isdecimal() for one in found) else None

    @property
    def name(self) -> str:
        """What stands as the `draft` of a message until the id is known."""
        return f"{_WORD}:{','.join(map(str, self.after))}"

    @property
    def candidates(self) -> Iterator[int]:
        """The ids that it may have, the likely ones first."""
        return iter(dict.fromkeys(start + step for start in self.after for step in range(1, _SOON + 1)))


class KnownMessages:
    """The ids of the newest messages of each chat that is heard of, of which nothing of the bot's is newer unknown.

    Whoever notes one vouches for that: it is one that this process has sent, or that somebody wrote since it runs. An
    earlier process may have sent others behind a message that is older; those must not be taken for lost ones.
    """

    def __init__(self) -> None:
        self._chats: OrderedDict[str, deque[int]] = OrderedDict()
        self._newest = 0

    def note(self, chat: str, message_id: int) -> None:
        """Remember a message that is newer than all that earlier processes sent."""
        ids = self._chats.pop(chat, None) or deque(maxlen=_MANY_IDS)
        self._chats[chat] = ids
        if message_id not in ids:
            ids.append(message_id)
        if not chat.startswith(("-", "@")):
            self._newest = max(self._newest, message_id)
        while len(self._chats) > _MANY_CHATS:
            self._chats.popitem(last=False)

    def knows(self, chat: str, message_id: int) -> bool:
        """Return whether a message is known, and so was not lost."""
        return message_id in self._chats.get(chat, ())

    def lost(self, chat: str) -> Lost | None:
        """Return how to find a message that is about to be sent, should it be lost; None if too little is known."""
        newest = max(self._chats.get(chat, ()), default=None)
        return Lost((newest, self._newest) if self._newest > newest else (newest,)) if newest is not None else None
