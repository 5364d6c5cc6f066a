"""What keeps tapes, and questions to it, as plugins of the reference write and read them."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from typing import Any, Generic, Protocol, TypeVar

from bub_reference.errors import BubError, ErrorKind
from bub_reference.tape import TapeEntry


class TapeStore(Protocol):
    """Keeps tapes."""

    def list_tapes(self) -> list[str]: ...

    def reset(self, tape: str) -> None: ...

    def fetch_all(self, query: TapeQuery[Any]) -> Iterable[TapeEntry]: ...

    def append(self, tape: str, entry: TapeEntry) -> None: ...


class AsyncTapeStore(Protocol):
    """Keeps tapes; each method is awaited."""

    async def list_tapes(self) -> list[str]: ...

    async def reset(self, tape: str) -> None: ...

    async def fetch_all(self, query: TapeQuery[Any]) -> Iterable[TapeEntry]: ...

    async def append(self, tape: str, entry: TapeEntry) -> None: ...


_Store = TypeVar("_Store")


def is_async_tape_store(store: object) -> bool:
    """Whether the methods of a store are awaited."""
    return inspect.iscoroutinefunction(getattr(store, "append", None))


@dataclass(frozen=True)
class TapeQuery(Generic[_Store]):
    """Which entries of a tape are wanted; stores read the fields, which the reference has named so."""

    tape: str
    store: _Store
    _query: str | None = None
    _after_anchor: str | None = None
    _after_last: bool = False
    _between_anchors: tuple[str, str] | None = None
    _between_dates: tuple[str, str] | None = None
    _kinds: tuple[str, ...] = ()
    _limit: int | None = None

    def query(self, value: str) -> TapeQuery[_Store]:
        """Entries that have this text somewhere."""
        return replace(self, _query=value)

    def after_anchor(self, name: str) -> TapeQuery[_Store]:
        """Entries behind the last anchor of this name; "" asks nothing."""
        return replace(self, _after_anchor=name or None, _after_last=False)

    def last_anchor(self) -> TapeQuery[_Store]:
        """Entries behind the anchor that was set last."""
        return replace(self, _after_anchor=None, _after_last=True)

    def between_anchors(self, start: str, end: str) -> TapeQuery[_Store]:
        """Entries between two anchors."""
        return replace(self, _between_anchors=(start, end))

    def between_dates(self, start: str | date, end: str | date) -> TapeQuery[_Store]:
        """Entries from one date to another, both included."""
        return replace(self, _between_dates=(_as_text(start), _as_text(end)))

    def kinds(self, *kinds: str) -> TapeQuery[_Store]:
        """Entries of these kinds."""
        return replace(self, _kinds=kinds)

    def limit(self, value: int) -> TapeQuery[_Store]:
        """So many entries at most."""
        return replace(self, _limit=value)

    def all(self) -> Any:
        """What the store answers: the entries, to be awaited if its methods are."""
        return self.store.fetch_all(self)  # type: ignore[attr-defined]


def _as_text(moment: str | date) -> str:
    return moment if isinstance(moment, str) else moment.isoformat()


class InMemoryQueryMixin:
    """Answers queries for a store that can read a whole tape: it has only to bring `read`."""

    def read(self, tape: str) -> list[TapeEntry] | None:
        """All entries of a tape, None if there is no such tape."""
        raise NotImplementedError(f"{type(self).__name__} has no `read`")

    def fetch_all(self, query: TapeQuery[Any]) -> Iterable[TapeEntry]:
        """The entries that a query wants; raises `BubError` for an anchor that is not there."""
        found = _stretch(self.read(query.tape) or [], query)
        if query._between_dates is not None:
            start, end = map(_moment, query._between_dates, (time.min, time.max))
            if start > end:
                raise BubError(ErrorKind.INVALID_INPUT, f"{query._between_dates[0]} is later than the end of the time")
            found = [entry for entry in found if start <= _moment(entry.date, time.min) <= end]
        if query._query:
            found = [entry for entry in found if query._query.casefold() in _words(entry)]
        if query._kinds:
            found = [entry for entry in found if entry.kind in query._kinds]
        return list(found if query._limit is None else found[: query._limit])


def _stretch(entries: Sequence[TapeEntry], query: TapeQuery[Any]) -> Sequence[TapeEntry]:
    """The part of a tape that the anchors of a query enclose."""
    if query._between_anchors is not None:
        start, end = query._between_anchors
        begin = _last(entries, start)
        behind = (place for place in range(begin + 1, len(entries)) if _is_anchor(entries[place], end))
        stop = next(behind, None)
        if stop is None:
            raise _no_anchor(end)
        return entries[begin + 1 : stop]
    if query._after_last or query._after_anchor is not None:
        return entries[_last(entries, None if query._after_last else query._after_anchor) + 1 :]
    return entries


def _last(entries: Sequence[TapeEntry], name: str | None) -> int:
    for place in reversed(range(len(entries))):
        if _is_anchor(entries[place], name):
            return place
    raise _no_anchor(name)


def _is_anchor(entry: TapeEntry, name: str | None) -> bool:
    return entry.kind == "anchor" and (name is None or entry.payload.get("name") == name)


def _no_anchor(name: str | None) -> BubError:
    what = "No anchors found in tape." if name is None else f"Anchor '{name}' was not found."
    return BubError(ErrorKind.NOT_FOUND, what)


def _moment(text: str, of_a_day: time) -> datetime:
    """A date as a moment in UTC; a plain day is the time `of_a_day` on it."""
    try:
        if len(text.strip()) <= len("2026-11-23"):
            return datetime.combine(date.fromisoformat(text.strip()), of_a_day, UTC)
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BubError(ErrorKind.INVALID_INPUT, f"`{text}` is not a date") from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _words(entry: TapeEntry) -> str:
    told = {"kind": entry.kind, "date": entry.date, "payload": entry.payload, "meta": entry.meta}
    return json.dumps(told, sort_keys=True, default=str).casefold()


class InMemoryTapeStore(InMemoryQueryMixin):
    """Keeps tapes as long as the process lives."""

    def __init__(self) -> None:
        self._tapes: dict[str, list[TapeEntry]] = {}

    def list_tapes(self) -> list[str]:
        """The names of all tapes."""
        return sorted(self._tapes)

    def reset(self, tape: str) -> None:
        """Forget a tape."""
        self._tapes.pop(tape, None)

    def read(self, tape: str) -> list[TapeEntry] | None:
        """All entries of a tape, None if there is no such tape."""
        known = self._tapes.get(tape)
        return None if known is None else [entry.copy() for entry in known]

    def append(self, tape: str, entry: TapeEntry) -> None:
        """Write an entry at the end of a tape."""
        known = self._tapes.setdefault(tape, [])
        known.append(replace(entry.copy(), id=len(known) + 1))


class AsyncTapeStoreAdapter:
    """A store whose methods are awaited, in front of one whose methods block: each runs in a thread."""

    def __init__(self, store: TapeStore) -> None:
        self._store = store

    async def list_tapes(self) -> list[str]:
        return await asyncio.to_thread(self._store.list_tapes)

    async def reset(self, tape: str) -> None:
        await asyncio.to_thread(self._store.reset, tape)

    async def fetch_all(self, query: TapeQuery[Any]) -> Iterable[TapeEntry]:
        return await asyncio.to_thread(lambda: list(self._store.fetch_all(query)))

    async def append(self, tape: str, entry: TapeEntry) -> None:
        await asyncio.to_thread(self._store.append, tape, entry)
