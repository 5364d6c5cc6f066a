"""What a conversation or a file holds that matters for where it may go, and where each of it came from."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bub.tape.entry import now
from bub.tape.transcript import moment

MOST = 3
"""How many sources of a kind are named: one is enough for the rule, and a person reads no more."""

_LONGEST = 120
"""How many letters of a source are kept."""


class Source(msgspec.Struct, frozen=True):
    """The place something came from, in words such as `a page from example.org`, and when, as ISO 8601.

    It may be what somebody said to the agent, which a model reads as such.
    """

    what: str
    at: str = ""
    is_message: bool = False

    @classmethod
    def of(cls, what: str, *, is_message: bool = False) -> Source:
        """Return a source of now; a name that strangers can choose is one line and short."""
        line = "".join(letter if letter.isprintable() else " " for letter in what)
        line = " ".join(line.split())
        return cls(line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…", now(), is_message)

    def __str__(self) -> str:
        return f"{self.what} ({moment(self.at)[:16]})" if self.at else self.what


class Marks(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is `private`, and what is `untrusted` since strangers may have written it: the oldest sources of each."""

    private: tuple[Source, ...] = ()
    untrusted: tuple[Source, ...] = ()

    def __or__(self, other: Marks) -> Marks:
        return Marks(_first((*self.private, *other.private)), _first((*self.untrusted, *other.untrusted)))

    def __bool__(self) -> bool:
        return bool(self.private or self.untrusted)

    def __str__(self) -> str:
        """All of it in words, such as `/srv/notes (2026-11-23 12:03) and a page from a.org (2026-11-23 12:04)`."""
        said = [str(source) for source in (*self.private, *self.untrusted)]
        return " and ".join(filter(None, [", ".join(said[:-1]), *said[-1:]]))


def private(what: str) -> Marks:
    """Return the marks of something private."""
    return Marks(private=(Source.of(what),))


def untrusted(what: str, *, is_message: bool = False) -> Marks:
    """Return the marks of something that strangers may have written."""
    return Marks(untrusted=(Source.of(what, is_message=is_message),))


def _first(sources: Iterable[Source]) -> tuple[Source, ...]:
    """The oldest sources, each once."""
    oldest: dict[str, Source] = {}
    for source in sorted(sources, key=lambda each: each.at):
        oldest.setdefault(source.what, source)
    return tuple(oldest.values())[:MOST]
