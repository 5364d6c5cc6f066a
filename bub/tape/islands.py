"""A tape store that a plugin brings which runs on asyncio."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Sequence
from typing import Any

from bub.base.scopes import as_manager
from bub.island.island import Island
from bub.island.manager import IslandManager
from bub.tape.entry import TapeEntry
from bub.tape.query import TapeQuery


def store_from(island: Island, provided: Any) -> Any:
    """What `provide_tape_store` returned, as trio can use it: a store, or a context manager that gives one.

    A store whose methods are plain functions stays as it is: whoever calls it does so in a thread.
    """
    manager = as_manager(provided)
    if manager is not None:
        return IslandManager(island, manager, functools.partial(_as_store, island))
    return _as_store(island, provided)


def _as_store(island: Island, store: Any) -> Any:
    return IslandTapeStore(island, store) if inspect.iscoroutinefunction(getattr(store, "append", None)) else store


class IslandTapeStore:
    """An asynchronous store that lives on an island; whatever else it has is found here, too."""

    def __init__(self, island: Island, store: Any) -> None:
        self._island = island
        self._store = store
        if hasattr(store, "extend"):
            self.extend = self._extend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def list_tapes(self) -> list[str]:
        """The names of all tapes, sorted."""
        return list(await self._island.call(self._store.list_tapes))

    async def append(self, tape: str, entry: TapeEntry) -> None:
        """Write one entry at the end of a tape."""
        await self._island.call(self._store.append, tape, entry)

    async def fetch_all(self, query: TapeQuery) -> Iterable[TapeEntry]:
        """The entries that a query wants."""
        return list(await self._island.call(self._fetch, query))

    async def reset(self, tape: str) -> None:
        """Forget a tape."""
        await self._island.call(self._store.reset, tape)

    async def _extend(self, tape: str, entries: Sequence[TapeEntry]) -> None:
        await self._island.call(self._store.extend, tape, entries)

    async def _fetch(self, query: TapeQuery) -> list[TapeEntry]:
        return list(await self._store.fetch_all(query))  # on the loop: it may read as it is iterated over
