"""The tapes of a test: kept as long as it runs, so that one message can build on another, and forgotten then."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from bub.tape import TapeEntry
from bub.tape.query import TapeQuery
from bub.tape.store import check_name, number_entries, stretch_of


class MemoryTapeStore:
    """Keeps tapes in memory, and nowhere else."""

    blocks = False
    """Nothing is waited for."""

    def __init__(self) -> None:
        self._tapes: dict[str, list[TapeEntry]] = {}

    def list_tapes(self) -> list[str]:
        """The names of all tapes, sorted."""
        return sorted(self._tapes)

    def append(self, tape: str, entry: TapeEntry) -> None:
        """Write one entry at the end of a tape."""
        self.extend(tape, [entry])

    def extend(self, tape: str, entries: Sequence[TapeEntry]) -> None:
        """Write entries at the end of a tape."""
        kept = self._tapes.setdefault(check_name(tape), [])
        kept += number_entries(entries, len(kept))

    def fetch_all(self, query: TapeQuery) -> list[TapeEntry]:
        """The entries that a query wants, in its order."""
        stretch = stretch_of(query, self)
        before = stretch.before - 1 if stretch.before is not None else None
        entries = self._tapes.get(query.tape, [])[stretch.after : before]
        ordered = reversed(entries) if query.backwards else iter(entries)
        return list(islice((entry for entry in ordered if query.wants(entry)), query.most))

    def reset(self, tape: str) -> None:
        """Forget a tape."""
        self._tapes.pop(tape, None)

    # What `stretch_of` asks.

    def last_anchor(self, tape: str, name: str | None) -> int | None:
        """The id of the last anchor, of this name if one is given."""
        return max(self._anchors(tape, name), default=None)

    def next_anchor(self, tape: str, after: int, name: str) -> int | None:
        """The id of the first anchor of this name behind an entry."""
        return min((one for one in self._anchors(tape, name) if one > after), default=None)

    def _anchors(self, tape: str, name: str | None) -> list[int]:
        entries = [entry for entry in self._tapes.get(tape, []) if entry.anchor_name is not None]
        return [entry.id for entry in entries if name is None or entry.anchor_name == name]
