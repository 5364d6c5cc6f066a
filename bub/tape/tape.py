"""The tape of one session: what is written to it, what is asked of it, and forks that a turn writes into."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import trio

from bub.errors import TapeError
from bub.tape.context import TapeContext
from bub.tape.entry import TapeEntry
from bub.tape.fork import Fork
from bub.tape.query import TapeQuery
from bub.tape.store import AsyncTapeStore, TapeStore

BOOTSTRAP = "session/start"
"""The anchor that every tape begins with."""

_T = TypeVar("_T")


def tape_name(workspace: Path, session_id: str) -> str:
    """What the tape of a session is called: a name for the workspace and one for the session (BEHAVIOURS P3)."""
    return f"{_short(str(workspace))}__{_short(session_id)}"


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Summary:
    """What there is to know of a tape at a glance."""

    name: str
    entries: int
    anchors: int
    last_anchor: str | None
    since_last_anchor: int


@dataclass(frozen=True, slots=True)
class Tape:
    """One session's record. `store` may be sync, then calls that wait run in a thread, or async.

    Every method raises TapeError when the store cannot do what is asked.
    """

    name: str
    store: TapeStore | AsyncTapeStore
    context: TapeContext = TapeContext()  # noqa: RUF009 (it is frozen)

    def query(self) -> TapeQuery:
        """The question for all of this tape, to be narrowed."""
        return TapeQuery(self.name)

    async def append(self, *entries: TapeEntry) -> None:
        """Write entries at the end, in one transaction where the store has them."""
        extend = getattr(self.store, "extend", None)
        if extend is not None:
            await self._call(extend, self.name, entries)
            return
        for entry in entries:
            await self._call(self.store.append, self.name, entry)

    async def fetch(self, query: TapeQuery) -> list[TapeEntry]:
        """The entries that a query wants."""
        return list(await self._call(self.store.fetch_all, query))

    async def search(self, query: TapeQuery, *, most: int = 20) -> list[TapeEntry]:
        """The newest entries that a query wants, the newest first."""
        return await self.fetch(query.newest().limit(most if query.most is None else query.most))

    async def ensure_bootstrap_anchor(self) -> None:
        """Begin the tape with an anchor, once (BEHAVIOURS P15)."""
        if not await self.fetch(self.query().limit(1)):
            await self.handoff(BOOTSTRAP, {"owner": "human"})

    async def handoff(self, name: str, state: Mapping[str, Any] | None = None, **meta: Any) -> None:
        """Begin anew from here: of what came before, the context has only `state` from now on."""
        if not name.strip():
            raise TapeError("an anchor needs a name", help="say what the next part is about")
        await self.append(
            TapeEntry.anchor(name, state, **meta),
            TapeEntry.event("handoff", {"name": name, "state": dict(state or {})}, **meta),
        )

    async def anchors(self, *, most: int = 20) -> list[TapeEntry]:
        """The newest anchors, in the order they were set."""
        return (await self.search(self.query().kinds("anchor"), most=most))[::-1]

    async def messages(self) -> list[dict[str, Any]]:
        """What a model is sent of this tape; what the anchor took along comes first."""
        anchor = await self._anchor()
        if anchor is None:
            return self.context.messages(await self.fetch(self.query()))
        query = self.context.build_query(self.query())
        return self.context.messages([anchor, *await self.fetch(query)])

    async def _anchor(self) -> TapeEntry | None:
        """The anchor that the context begins with; None for the whole tape."""
        if self.context.anchor is None:
            return None
        anchors = self.query().kinds("anchor")
        if not isinstance(self.context.anchor, str):
            return next(iter(await self.search(anchors, most=1)), None)
        for entry in reversed(await self.fetch(anchors)):
            if entry.anchor_name == self.context.anchor:
                return entry
        raise TapeError(f"tape `{self.name}` has no anchor `{self.context.anchor}`", reason="not_found")

    async def summary(self) -> Summary:
        """How long the tape is. Reads all of it."""
        entries = await self.fetch(self.query())
        names = [(index, entry.anchor_name) for index, entry in enumerate(entries, 1) if entry.anchor_name is not None]
        last, name = names[-1] if names else (0, None)
        return Summary(self.name, len(entries), len(names), name, len(entries) - last)

    async def reset(self) -> None:
        """Forget everything and begin anew."""
        await self._call(self.store.reset, self.name)
        await self.ensure_bootstrap_anchor()

    @asynccontextmanager
    async def fork(self, *, merge_back: bool = True) -> AsyncIterator[Tape]:
        """A tape that has all of this one, and whose own entries join it when the block is left (BEHAVIOURS P16-P18).

        They are written as one transaction, also when the block fails; with `merge_back` False they are forgotten.
        A reset in the fork hides what came before at once, and takes place when the block is left.
        """
        fork = Fork(self.name, await self.fetch(self.query().newest().limit(1)))
        try:
            yield replace(self, store=_ForkedStore(fork, self))
        finally:
            if merge_back:
                with trio.CancelScope(shield=True):  # what happened is written, whoever wants to leave
                    if fork.was_reset:
                        await self._call(self.store.reset, self.name)
                    if fork.own:
                        await self.append(*fork.own)

    async def _call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        if inspect.iscoroutinefunction(method):
            return await method(*arguments)
        if getattr(self.store, "blocks", True):
            return await trio.to_thread.run_sync(method, *arguments)
        return method(*arguments)


class _ForkedStore:
    """The store of a fork: its own entries behind those of the tape it was forked from."""

    def __init__(self, fork: Fork, parent: Tape) -> None:
        self._fork = fork
        self._parent = parent

    async def list_tapes(self) -> list[str]:
        return list(await self._parent._call(self._parent.store.list_tapes))

    async def append(self, tape: str, entry: TapeEntry) -> None:
        self._fork.extend([entry])

    async def extend(self, tape: str, entries: Sequence[TapeEntry]) -> None:
        self._fork.extend(entries)

    async def fetch_all(self, query: TapeQuery) -> Iterable[TapeEntry]:
        return await self._fork.fetch(query, self._parent.fetch)

    async def reset(self, tape: str) -> None:
        self._fork.reset()
