"""What keeps tapes: the protocol of a store, and where in a tape a query's entries lie."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import msgspec
import trio

from bub.errors import TapeError
from bub.tape.entry import TapeEntry, mend
from bub.tape.query import AnchorSelector, TapeQuery, no_anchor


@runtime_checkable
class TapeStore(Protocol):
    """Keeps the tapes of all sessions (BEHAVIOURS P2). Entries are never changed, and each tape numbers its own."""

    def list_tapes(self) -> list[str]:
        """The names of all tapes, sorted."""

    def append(self, tape: str, entry: TapeEntry) -> None:
        """Write one entry at the end of a tape; its id and the tape itself are made as needed."""

    def fetch_all(self, query: TapeQuery) -> Iterable[TapeEntry]:
        """The entries that a query wants; of an unknown tape none. Raises TapeError for an anchor that is not there."""

    def reset(self, tape: str) -> None:
        """Forget a tape; the next entry is its first."""


@runtime_checkable
class AsyncTapeStore(Protocol):
    """As `TapeStore`, each method awaited."""

    async def list_tapes(self) -> list[str]: ...

    async def append(self, tape: str, entry: TapeEntry) -> None: ...

    async def fetch_all(self, query: TapeQuery) -> Iterable[TapeEntry]: ...

    async def reset(self, tape: str) -> None: ...


class FencedTapeError(TapeError):
    """A write was refused, and nothing of it done: another gateway works on this session by now."""

    def __init__(self, message: str, *, help: str | None = None) -> None:  # noqa: A002 (BubError's)
        super().__init__(message, help=help, reason="unavailable")


def place_of(store: object) -> Path | None:
    """Return the file or folder in which a store keeps its tapes; None if it does not say."""
    place = getattr(store, "path", None) or getattr(store, "folder", None)
    return Path(place) if isinstance(place, str | Path) else None


def show_place(store: object) -> str | None:
    """Return where a store keeps its tapes, for people: a file, a folder, or an address; None if it does not say."""
    address = getattr(store, "shown", None)
    place = place_of(store)
    return address if isinstance(address, str) else str(place) if place is not None else None


class Stretch(NamedTuple):
    """A part of a tape: the entries whose id is above `after` and below `before` (None: up to the end)."""

    after: int = 0
    before: int | None = None


class Anchors(Protocol):
    """What a store knows of a tape's anchors."""

    def last_anchor(self, tape: str, name: str | None) -> int | None:
        """The id of the last anchor, of this name if one is given."""

    def next_anchor(self, tape: str, after: int, name: str) -> int | None:
        """The id of the first anchor of this name behind an entry."""


def stretch_of(query: TapeQuery, store: Anchors) -> Stretch:
    """Return the stretch of a query's entries. Raises TapeError for an anchor that the tape lacks (BEHAVIOURS P10)."""
    after, before = 0, query.below
    if query.after is not None:
        after = _find_anchor(store, query.tape, query.after)
    if query.anchors is not None:
        start, end = query.anchors
        opened = _find_anchor(store, query.tape, start)
        closed = store.next_anchor(query.tape, opened, end)
        if closed is None:
            raise no_anchor(query.tape, end)
        before = closed if before is None else min(before, closed)
        after = max(after, opened)
    return Stretch(after, before)


def _find_anchor(store: Anchors, tape: str, anchor: AnchorSelector) -> int:
    found = store.last_anchor(tape, anchor if isinstance(anchor, str) else None)
    if found is None:
        raise no_anchor(tape, anchor)
    return found


def stop_if_cancelled() -> None:
    """End a search whose caller is cancelled, if it runs in a thread of trio's; whoever searches asks now and then."""
    with suppress(RuntimeError):  # it runs in no such thread
        trio.from_thread.check_cancelled()


def check_name(tape: str) -> str:
    """The name of a tape, if it can be one (BEHAVIOURS P8); raises TapeError."""
    if not tape or "/" in tape or "\\" in tape or "\0" in tape or tape in (".", ".."):
        raise TapeError(f"`{tape}` cannot be the name of a tape", help="names have no slash", reason="not_found")
    return tape


def encode_entry(encode: Callable[[Any], bytes], value: Any) -> bytes:
    """What a store writes of an entry, or of a part of one; raises TapeError for what JSON does not know."""
    try:
        try:
            return encode(value)
        except UnicodeEncodeError:  # one letter that is none must not cost the whole turn
            return encode(mend(msgspec.to_builtins(value)))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise TapeError(f"an entry cannot be written as JSON: {error}", help="keep to what JSON knows") from error


def number_entries(entries: Sequence[TapeEntry], last: int) -> list[TapeEntry]:
    """Entries with the ids that follow `last`."""
    return [
        TapeEntry(last + index, entry.kind, entry.payload, entry.meta, entry.date)
        for index, entry in enumerate(entries, start=1)
    ]
