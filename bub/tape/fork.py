"""Entries that are not on the tape yet, and how a query sees the tape with them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import msgspec

from bub.tape.entry import TapeEntry
from bub.tape.query import AnchorSelector, TapeQuery, no_anchor
from bub.tape.store import encode_entry, number_entries

Fetch = Callable[[TapeQuery], Awaitable[list[TapeEntry]]]


class Fork:
    """What a turn has written so far. `last` is the newest entry of the tape that it is on, or nothing."""

    def __init__(self, tape: str, last: Sequence[TapeEntry]) -> None:
        self._tape = tape
        self._base = last[0].id if last else 0
        self.own: list[TapeEntry] = []
        self.was_reset = False

    def extend(self, entries: Sequence[TapeEntry]) -> None:
        """Add entries behind all others, as they are now; TapeError for what no store could write."""
        self.own += number_entries([_copy(entry) for entry in entries], self._base + len(self.own))

    def reset(self) -> None:
        """Hide everything written so far."""
        self.own.clear()
        self._base, self.was_reset = 0, True

    async def fetch(self, query: TapeQuery, fetch: Fetch) -> list[TapeEntry]:
        """What `query` wants of the tape, which `fetch` asks, and of the own entries, as if they were on it already."""
        if not (self.own or self.was_reset):
            return await fetch(query)
        if query.most == 0:
            return []
        below, own = await self._stretch(query, fetch)
        wanted = [_copy(entry) for entry in own if query.wants(entry)]
        found = [*reversed(wanted), *below] if query.backwards else [*below, *wanted]
        return found[: query.most]

    async def _stretch(self, query: TapeQuery, fetch: Fetch) -> tuple[list[TapeEntry], list[TapeEntry]]:
        """Return the tape's entries that are wanted, in the query's order, and the own ones among which it looks."""
        after = self._own_anchor(query.after) if query.after is not None else None
        below: list[TapeEntry] = []
        if query.anchors is None:
            if after is None and not self.was_reset:
                below = await fetch(query)
            elif after is None and query.after is not None:
                raise no_anchor(self._tape, query.after)
            return below, self.own[after or 0 :]
        opened, closed = await self._between(query.anchors, fetch)
        if query.after is not None and after is None:
            if self.was_reset:
                raise no_anchor(self._tape, query.after)
            await fetch(TapeQuery(self._tape, after=query.after, most=1))  # it has to be there
        if opened is None and after is None:
            # The stretch begins on the tape; where it ends there, too, the tape knows the whole answer.
            behind_start = replace(query, anchors=None, after=query.anchors[0], most=None)
            below = await fetch(behind_start if closed is not None else query)
            if closed is not None and query.after is not None:
                behind = await fetch(TapeQuery(self._tape, after=query.after, most=1))
                below = [entry for entry in below if behind and entry.id >= behind[0].id]
        if closed is None:
            return below, []
        return below, self.own[max(opened or 0, after or 0) : closed]

    async def _between(self, anchors: tuple[str, str], fetch: Fetch) -> tuple[int | None, int | None]:
        """Find where a stretch between two anchors begins and ends among the own entries; None for one on the tape."""
        start, end = anchors
        opened = self._own_anchor(start)
        if opened is None:
            if self.was_reset:
                raise no_anchor(self._tape, start)
            on_tape = await fetch(TapeQuery(self._tape, after=start, only=("anchor",)))
            if any(entry.anchor_name == end for entry in on_tape):
                return None, None
        for index in range(opened or 0, len(self.own)):
            if self.own[index].anchor_name == end:
                return opened, index
        raise no_anchor(self._tape, end)

    def _own_anchor(self, anchor: AnchorSelector) -> int | None:
        """Count the own entries up to the last such anchor, itself included; None if none of them is one."""
        for index in reversed(range(len(self.own))):
            name = self.own[index].anchor_name
            if name is not None and (not isinstance(anchor, str) or name == anchor):
                return index + 1
        return None


def _copy(entry: TapeEntry) -> TapeEntry:
    """Copy an entry as a store gives it: a change of one does not change the other (BEHAVIOURS P25)."""
    return msgspec.json.decode(encode_entry(msgspec.json.encode, entry), type=TapeEntry)
