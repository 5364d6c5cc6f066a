"""Tapes as plugins of the reference know them: entries, what a model reads of them, and one session's tape."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from bub.tape import LAST_ANCHOR as LAST_ANCHOR
from bub_reference.errors import BubError
from bub_reference.sidecars import TapeSidecar, sidecar_tape_name

if TYPE_CHECKING:
    from bub_reference.store import AsyncTapeStore as AsyncTapeStore
    from bub_reference.store import AsyncTapeStoreAdapter as AsyncTapeStoreAdapter
    from bub_reference.store import InMemoryQueryMixin as InMemoryQueryMixin
    from bub_reference.store import InMemoryTapeStore as InMemoryTapeStore
    from bub_reference.store import TapeQuery as TapeQuery
    from bub_reference.store import TapeStore as TapeStore
    from bub_reference.store import is_async_tape_store as is_async_tape_store

AnchorSelector: TypeAlias = Any
"""The name of an anchor, `LAST_ANCHOR`, or None for the whole tape."""

SelectedMessages: TypeAlias = "list[dict[str, Any]] | Awaitable[list[dict[str, Any]]]"
ContextSelector: TypeAlias = "Callable[[Iterable[TapeEntry], TapeContext], SelectedMessages]"

_IN_STORE = (
    "AsyncTapeStore",
    "AsyncTapeStoreAdapter",
    "InMemoryQueryMixin",
    "InMemoryTapeStore",
    "TapeQuery",
    "TapeStore",
    "is_async_tape_store",
)


def __getattr__(name: str) -> Any:
    if name not in _IN_STORE:
        raise AttributeError(f"Bub does not have `bub.tape.{name}`, for a plugin of the Bub on PyPI neither")
    from bub_reference import store  # it needs the entries of this module

    return getattr(store, name)


def utc_now() -> str:
    """The moment as ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat()


@dataclass(frozen=True)
class TapeEntry:
    """One thing that happened in a session; the store gives it its `id`."""

    id: int
    kind: str
    payload: dict[str, Any]
    meta: dict[str, Any] = field(default_factory=dict)
    date: str = field(default_factory=utc_now)

    def copy(self) -> TapeEntry:
        """The same entry, with a payload and notes of its own."""
        return replace(self, payload=dict(self.payload), meta=dict(self.meta))

    @classmethod
    def of(cls, kind: str, payload: Mapping[str, Any], meta: Mapping[str, Any]) -> TapeEntry:
        """An entry that no store has yet."""
        return cls(0, kind, dict(payload), dict(meta))

    @classmethod
    def message(cls, message: dict[str, Any], **meta: Any) -> TapeEntry:
        """What a person or the model said."""
        return cls.of("message", message, meta)

    @classmethod
    def system(cls, content: str, **meta: Any) -> TapeEntry:
        """A system prompt."""
        return cls.of("system", {"content": content}, meta)

    @classmethod
    def anchor(cls, name: str, state: dict[str, Any] | None = None, **meta: Any) -> TapeEntry:
        """A point that the context is rebuilt from."""
        return cls.of("anchor", {"name": name} if state is None else {"name": name, "state": dict(state)}, meta)

    @classmethod
    def tool_call(cls, calls: list[dict[str, Any]], **meta: Any) -> TapeEntry:
        """The calls of one step."""
        return cls.of("tool_call", {"calls": calls}, meta)

    @classmethod
    def tool_result(cls, results: list[Any], **meta: Any) -> TapeEntry:
        """The results of one step, in the order of its calls."""
        return cls.of("tool_result", {"results": results}, meta)

    @classmethod
    def error(cls, error: BubError, **meta: Any) -> TapeEntry:
        """A failure."""
        return cls.of("error", error.as_dict(), meta)

    @classmethod
    def event(cls, name: str, data: dict[str, Any] | None = None, **meta: Any) -> TapeEntry:
        """Something that happened around the conversation."""
        return cls.of("event", {"name": name} if data is None else {"name": name, "data": dict(data)}, meta)


@dataclass(frozen=True)
class TapeContext:
    """What of a tape a model reads: from which `anchor` on, and chosen by `select`."""

    anchor: AnchorSelector = LAST_ANCHOR
    select: ContextSelector | None = None
    state: dict[str, Any] = field(default_factory=dict)

    def build_query(self, query: TapeQuery[Any]) -> TapeQuery[Any]:
        """Narrow a query to the entries of this context."""
        if self.anchor is None:
            return query
        return query.after_anchor(self.anchor) if isinstance(self.anchor, str) else query.last_anchor()


def build_messages(entries: Iterable[TapeEntry], context: TapeContext) -> SelectedMessages:
    """The messages of some entries, as the context chooses them; without a choice, what was said."""
    if context.select is None:
        return [dict(entry.payload) for entry in entries if entry.kind == "message"]
    return context.select(entries, context)


@dataclass(frozen=True)
class TapeInfo:
    """What is on a tape, in numbers."""

    name: str
    entries: int
    anchors: int
    last_anchor: str | None
    entries_since_last_anchor: int
    last_token_usage: int | None = None
    last_token_cache_hit_rate: float | None = None


@dataclass(frozen=True)
class AnchorSummary:
    """An anchor, and what it takes along."""

    name: str
    state: dict[str, Any]


@dataclass(frozen=True)
class Tape:
    """The tape of one session in a store whose methods are awaited."""

    name: str
    store: AsyncTapeStore
    context: TapeContext = field(default_factory=TapeContext)
    sidecars: Sequence[TapeSidecar] = ()

    def query(self) -> TapeQuery[Any]:
        """A query for all of it, to be narrowed."""
        from bub_reference.store import TapeQuery  # it needs the entries of this module

        return TapeQuery(tape=self.name, store=self.store)

    def get_sidecar(self, name: str) -> TapeSidecar | None:
        """The sidecar of this name."""
        return next((sidecar for sidecar in self.sidecars if sidecar.name == name), None)

    def sidecar_tape_name(self, name: str) -> str:
        """The tape of a sidecar; raises `KeyError` if there is no such sidecar."""
        if self.get_sidecar(name) is None:
            raise KeyError(name)
        return sidecar_tape_name(self.name, name)

    async def search(self, query: TapeQuery[Any]) -> list[TapeEntry]:
        """The entries that a query wants."""
        return list(await self.store.fetch_all(query))

    async def info(self) -> TapeInfo:
        """What is on it, in numbers."""
        entries = await self.search(self.query())
        places = [place for place, entry in enumerate(entries) if entry.kind == "anchor"]
        usage = next((found for entry in reversed(entries) if (found := _usage_of(entry)) is not None), {})
        return TapeInfo(
            self.name,
            len(entries),
            len(places),
            entries[places[-1]].payload.get("name") if places else None,
            len(entries) - (places[-1] + 1 if places else 0),
            usage.get("total_tokens"),
        )

    async def anchors(self, limit: int = 20) -> list[AnchorSummary]:
        """Its last anchors."""
        found = (await self.search(self.query().kinds("anchor")))[-limit:]
        told = [entry.payload for entry in found]
        return [AnchorSummary(str(one.get("name")), dict(one.get("state") or {})) for one in told]

    async def append_event(self, name: str, payload: dict[str, Any], **meta: Any) -> None:
        """Note something that happened around the conversation."""
        await self.store.append(self.name, TapeEntry.event(name, payload, **meta))

    async def handoff(self, *, name: str, state: dict[str, Any] | None = None, **meta: Any) -> list[TapeEntry]:
        """Set an anchor, behind which the conversation has only `state`."""
        written = [
            TapeEntry.anchor(name, state, **meta),
            TapeEntry.event("handoff", {"name": name, "state": state or {}}, **meta),
        ]
        for entry in written:
            await self.store.append(self.name, entry)
        return written

    async def read_messages(self) -> list[dict[str, Any]]:
        """What a model reads of it."""
        entries = await self.search(self.context.build_query(self.query()))
        messages = build_messages([entry for entry in entries if entry.meta.get("context") is not False], self.context)
        return list(await messages) if inspect.isawaitable(messages) else messages


def _usage_of(entry: TapeEntry) -> Mapping[str, Any] | None:
    """The provider's counts, if an entry has them."""
    if entry.kind != "event" or entry.payload.get("name") != "run":
        return None
    data = entry.payload.get("data")
    usage = data.get("usage") if isinstance(data, Mapping) else None
    return usage if isinstance(usage, Mapping) and isinstance(usage.get("total_tokens"), int) else None
