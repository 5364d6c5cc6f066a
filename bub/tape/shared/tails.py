"""What a turn has just read of its tape: all from the last anchor on, which it asks for again and again.

Only who has the lease of a session writes its tape, so what was read under it a moment ago is what is there. What a
command writes beside a turn, which needs no lease, a turn that is under way may learn of that moment later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import trio

from bub.tape.query import LAST_ANCHOR, TapeQuery, no_anchor

KNOWN_FOR = 1.0
"""How long, in seconds, what was read is known."""

_ANCHOR = b'{"kind":"anchor",'


class Kept(NamedTuple):
    """An entry as it lies there."""

    number: int
    version: int
    text: bytes

    @classmethod
    def of(cls, number: bytes, version: bytes, text: bytes) -> Kept:
        """Read it from an entry of a stream."""
        return cls(int(number.partition(b"-")[0]), int(version), text)


class Tail(NamedTuple):
    """What was read under the lease with a `token`; no `entries` if they were too many to keep."""

    token: str
    until: float
    entries: Sequence[Kept] | None


class Tails:
    """The tails of tapes, each known for a moment, and only to the turn that may write to the tape."""

    def __init__(self) -> None:
        self._known: dict[str, Tail] = {}
        self._reading: dict[str, object] = {}

    def find(self, tape: str, token: str) -> Tail | None:
        """Return what was read of a tape under this lease a moment ago."""
        tail = self._known.get(tape)
        return tail if tail is not None and tail.token == token and trio.current_time() < tail.until else None

    def begin(self, tape: str) -> object:
        """Note that a tape is about to be read; give what comes back to `end`."""
        mark = self._reading[tape] = object()
        return mark

    def end(self, tape: str, mark: object, token: str, entries: Sequence[Kept] | None) -> None:
        """Know what was read, unless somebody here has written to the tape meanwhile."""
        now = trio.current_time()
        if self._reading.get(tape) is mark:
            self.forget(tape)
            while self._known and next(iter(self._known.values())).until <= now:
                del self._known[next(iter(self._known))]
            self._known[tape] = Tail(token, now + KNOWN_FOR, entries)

    def forget(self, tape: str) -> None:
        """Know nothing of a tape: somebody here writes to it."""
        self._known.pop(tape, None)
        self._reading.pop(tape, None)


def stretch_in(query: TapeQuery, entries: Sequence[Kept]) -> Sequence[Kept] | None:
    """Return the entries of a tail among which a query looks, in order of writing; None if it may look at others, too.

    Raises TapeError for an anchor that the tape does not have.
    """
    is_anchored = bool(entries) and entries[0].text.startswith(_ANCHOR)
    if query.after is LAST_ANCHOR:
        if not is_anchored:
            raise no_anchor(query.tape, LAST_ANCHOR)
        return entries[1:]
    is_whole = not entries or entries[0].number == 1
    is_newest = query.backwards and query.most == 1 and query.only in ((), ("anchor",))
    return entries if is_whole or is_newest else None
