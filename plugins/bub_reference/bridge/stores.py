"""Tape stores of the two, one in front of the other."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from bub.errors import TapeError
from bub.tape import TapeEntry as OurEntry
from bub.tape import TapeQuery as OurQuery
from bub_reference.errors import BubError, ErrorKind
from bub_reference.store import TapeQuery, is_async_tape_store
from bub_reference.tape import TapeEntry

_REASONS = {ErrorKind.NOT_FOUND: "not_found", ErrorKind.INVALID_INPUT: "invalid_input"}


def provided_to_bub(provided: Any) -> Any:
    """What `provide_tape_store` of a plugin gives: a store of Bub's kind, or what opens one."""
    if provided is None:
        return None
    if isinstance(provided, AsyncIterator) or hasattr(provided, "__aenter__"):
        return _opened_async(provided)
    if isinstance(provided, Iterator) or hasattr(provided, "__enter__"):
        return _opened(provided)
    return store_to_bub(provided)


@asynccontextmanager
async def _opened_async(provided: Any) -> AsyncIterator[Any]:
    manager = provided if hasattr(provided, "__aenter__") else asynccontextmanager(lambda: provided)()
    async with manager as store:
        yield store_to_bub(store)


@contextmanager
def _opened(provided: Any) -> Iterator[Any]:
    manager = provided if hasattr(provided, "__enter__") else contextmanager(lambda: provided)()
    with manager as store:
        yield store_to_bub(store)


def store_to_bub(store: Any) -> AwaitedStore | PlainStore:
    """A store of a plugin as Bub uses it."""
    return AwaitedStore(store) if is_async_tape_store(store) else PlainStore(store)


class PlainStore:
    """A store whose methods block."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def list_tapes(self) -> list[str]:
        """The names of all tapes, sorted."""
        return sorted(self._store.list_tapes())

    def append(self, tape: str, entry: OurEntry) -> None:
        """Write one entry at the end of a tape."""
        self._store.append(tape, entry_to_reference(entry))

    def fetch_all(self, query: OurQuery) -> list[OurEntry]:
        """The entries that a query wants."""
        try:
            return _chosen(query, self._store.fetch_all(query_to_reference(query, self._store)))
        except BubError as error:
            raise _as_tape_error(error) from error

    def reset(self, tape: str) -> None:
        """Forget a tape."""
        self._store.reset(tape)


class AwaitedStore:
    """A store whose methods are awaited."""

    def __init__(self, store: Any) -> None:
        self._store = store

    async def list_tapes(self) -> list[str]:
        """The names of all tapes, sorted."""
        return sorted(await self._store.list_tapes())

    async def append(self, tape: str, entry: OurEntry) -> None:
        """Write one entry at the end of a tape."""
        await self._store.append(tape, entry_to_reference(entry))

    async def fetch_all(self, query: OurQuery) -> list[OurEntry]:
        """The entries that a query wants."""
        try:
            return _chosen(query, await self._store.fetch_all(query_to_reference(query, self._store)))
        except BubError as error:
            raise _as_tape_error(error) from error

    async def reset(self, tape: str) -> None:
        """Forget a tape."""
        await self._store.reset(tape)


class ReferenceStore:
    """Bub's own store as a plugin of the reference uses it; each method is awaited."""

    def __init__(self, store: Any) -> None:
        self._store = store

    async def list_tapes(self) -> list[str]:
        return list(await self._do("list_tapes"))

    async def append(self, tape: str, entry: TapeEntry) -> None:
        await self._do("append", tape, entry_to_bub(entry))

    async def fetch_all(self, query: TapeQuery[Any]) -> Iterable[TapeEntry]:
        try:
            return [entry_to_reference(entry) for entry in await self._do("fetch_all", query_to_bub(query))]
        except TapeError as error:
            raise _as_bub_error(error) from error

    async def reset(self, tape: str) -> None:
        await self._do("reset", tape)

    async def _do(self, name: str, *arguments: Any) -> Any:
        done = getattr(self._store, name)(*arguments)
        return await done if inspect.isawaitable(done) else done


class OneTape:
    """The tape of a session as a store that has only this one."""

    def __init__(self, tape: Any) -> None:
        self._tape = tape

    async def list_tapes(self) -> list[str]:
        return [self._tape.name]

    async def append(self, tape: str, entry: TapeEntry) -> None:
        await self._tape.append(entry_to_bub(entry))

    async def fetch_all(self, query: TapeQuery[Any]) -> Iterable[TapeEntry]:
        try:
            return [entry_to_reference(entry) for entry in await self._tape.fetch(query_to_bub(query))]
        except TapeError as error:
            raise _as_bub_error(error) from error

    async def reset(self, tape: str) -> None:
        raise BubError(ErrorKind.INVALID_INPUT, "a tool cannot forget the tape of its turn")


def entry_to_reference(entry: OurEntry) -> TapeEntry:
    """An entry of Bub's as a store of the reference keeps it."""
    return TapeEntry(entry.id, entry.kind, entry.payload, entry.meta, entry.date)


def entry_to_bub(entry: TapeEntry) -> OurEntry:
    """An entry of the reference as Bub reads it."""
    return OurEntry(entry.id, entry.kind, entry.payload, entry.meta, entry.date)


def query_to_reference(query: OurQuery, store: Any) -> TapeQuery[Any]:
    """A question of Bub's; what the reference cannot ask, `_chosen` does afterwards."""
    asked: Any = TapeQuery(query.tape, store, _query=query.text, _kinds=query.only)
    if isinstance(query.after, str):
        asked = asked.after_anchor(query.after)
    elif query.after is not None:
        asked = asked.last_anchor()
    if query.anchors is not None:
        asked = asked.between_anchors(*query.anchors)
    if query.since is not None:
        asked = asked.between_dates(query.since, query.until or query.since)
    if query.most is not None and not query.backwards:
        asked = asked.limit(query.most)
    return asked  # type: ignore[no-any-return]


def query_to_bub(query: TapeQuery[Any]) -> OurQuery:
    """A question of the reference's."""
    asked = OurQuery(
        query.tape, text=query._query, only=query._kinds, most=query._limit, anchors=query._between_anchors
    )
    if query._after_last:
        asked = asked.last_anchor()
    elif query._after_anchor:
        asked = asked.after_anchor(query._after_anchor)
    return asked.between_dates(*query._between_dates) if query._between_dates is not None else asked


def _chosen(query: OurQuery, entries: Iterable[TapeEntry]) -> list[OurEntry]:
    found = [entry_to_bub(entry) for entry in entries if query.below is None or entry.id < query.below]
    if query.backwards:
        found.reverse()
    return found if query.most is None else found[: query.most]


def _as_tape_error(error: BubError) -> TapeError:
    return TapeError(error.message, reason=_REASONS.get(error.kind, "unavailable"))


def _as_bub_error(error: TapeError) -> BubError:
    kind = next((kind for kind, reason in _REASONS.items() if reason == error.reason), ErrorKind.UNKNOWN)
    return BubError(kind, str(error))
