"""The tape of one session: what is written to it, what is asked of it, and forks that a turn writes into."""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import trio

from bub.base.identity.agents import memory_of
from bub.errors import TapeError
from bub.log import log_exception
from bub.tape.context import TapeContext
from bub.tape.entry import TapeEntry, text_of
from bub.tape.fork import Fork
from bub.tape.lines import write_archive
from bub.tape.query import TapeQuery
from bub.tape.store import AsyncTapeStore, TapeStore

BOOTSTRAP = "session/start"
"""The anchor that every tape begins with."""

SIDECAR = "__sidecar__"
"""What is between the name of a tape and that of one beside it."""


def tape_name(workspace: Path, session_id: str) -> str:
    """What the tape of a session is called: a name for the workspace and one for the session (BEHAVIOURS P3).

    However a workspace is written, it is the same one; an agent that has a name has the same tapes everywhere.
    """
    return f"{prefix_of(memory_of(workspace, os.environ))}{_short(session_id)}"


def prefix_of(memory: str) -> str:
    """How the names of all tapes begin that belong to a memory (`memory_of`) alone."""
    return f"{_short(memory)}__"


def _real(workspace: Path) -> str:
    return os.path.realpath(workspace)


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()[:16]


class Summary(msgspec.Struct, frozen=True):
    """What there is to know of a tape at a glance; `session` and `workspace` if its first anchor names them.

    `last_words` is what a person or the model said last, None if nobody has said anything.
    """

    name: str
    entries: int
    anchors: int
    last_anchor: str | None
    since_last_anchor: int
    last_date: str | None = None
    session: str | None = None
    workspace: str | None = None
    last_words: str | None = None


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
        """Write entries at the end, in one transaction if the store has transactions."""
        extend = getattr(self.store, "extend", None)
        if extend is not None:
            await self._call(extend, self.name, entries)
            return
        for entry in entries:
            await self._call(self.store.append, self.name, entry)

    async def fetch(self, query: TapeQuery) -> list[TapeEntry]:
        """The entries that a query wants."""
        # A text may have to be looked for in all that was ever written.
        return list(await self._call(self.store.fetch_all, query, long=query.text is not None))

    async def search(self, query: TapeQuery, *, most: int = 20) -> list[TapeEntry]:
        """The newest entries that a query wants, the newest first."""
        return await self.fetch(query.newest().limit(most if query.most is None else query.most))

    async def ensure_bootstrap_anchor(self, session_id: str | None = None, workspace: Path | None = None) -> None:
        """Begin the tape with an anchor, once (BEHAVIOURS P15).

        The anchor notes whose tape it is, since the name of a tape cannot be read back.
        """
        if not await self.fetch(self.query().limit(1)):
            about = {"session": session_id, "workspace": _real(workspace) if workspace is not None else None}
            await self._begin({name: value for name, value in about.items() if value is not None})

    async def _begin(self, about: Mapping[str, Any], **state: Any) -> None:
        # It is no part of the conversation: whoever reads on from here has nothing to be told.
        await self.handoff(BOOTSTRAP, {"owner": "human", **state}, context=False, **about)

    async def handoff(self, name: str, state: Mapping[str, Any] | None = None, **meta: Any) -> None:
        """Start over from here: of what came before, the context keeps only `state` from now on."""
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
        """How long the tape is, and whose. Reads its ends and its anchors."""
        last = next(iter(await self.search(self.query(), most=1)), None)
        if last is None:
            return Summary(self.name, 0, 0, None, 0)
        anchors = await self.fetch(self.query().kinds("anchor"))
        about = await self._about()
        return Summary(
            self.name,
            last.id,
            len(anchors),
            anchors[-1].anchor_name if anchors else None,
            last.id - (anchors[-1].id if anchors else 0),
            last.date,
            about.get("session"),
            about.get("workspace"),
            await self._last_words(),
        )

    async def _last_words(self) -> str | None:
        said = await self.search(self.query().kinds("message"), most=1)
        return text_of(said[0].payload.get("content")) if said else None

    async def _about(self) -> dict[str, Any]:
        """Whose tape it is, as far as its first anchor tells."""
        first = await self.fetch(self.query().limit(1))
        meta = first[0].meta if first and first[0].anchor_name == BOOTSTRAP else {}
        return {name: meta[name] for name in ("session", "workspace") if isinstance(meta.get(name), str)}

    # Starting over.

    async def reset(self, archive: Path | None = None) -> Path | None:
        """Forget everything, sidecars included, and start over (BEHAVIOURS P20).

        With a folder `archive`, all entries are first copied to a file of JSON lines there; the new tape names it, and
        it is returned. TapeError if that fails, and the tape stays as it was. A sidecar that fails is noted on the
        tape and changes nothing for it (P21).
        """
        about = await self._about()
        kept = await self._archive(archive) if archive is not None else None
        await self.forget()
        await self._begin(about, **({"archived": str(kept)} if kept is not None else {}))
        for name in await list_tapes(self.store):
            if name.startswith(f"{self.name}{SIDECAR}"):
                try:
                    sidecar = replace(self, name=name)
                    if archive is not None:
                        await sidecar._archive(archive)
                    await sidecar.forget()
                except Exception as error:  # noqa: BLE001 (whatever its store does, the tape goes on)
                    await self.append(_sidecar_failed(name, "reset", error))
        return kept

    async def _archive(self, folder: Path) -> Path:
        entries = await self._call(self.store.fetch_all, self.query(), long=True)
        return await trio.to_thread.run_sync(write_archive, folder, self.name, entries)

    async def forget(self) -> None:
        """Remove the tape, without a copy and without starting over."""
        await self._call(self.store.reset, self.name, long=True)

    # Sidecars.

    def sidecar(self, name: str) -> Tape:
        """A tape beside this one, for what belongs to the session but not to the conversation (BEHAVIOURS P21)."""
        return replace(self, name=f"{self.name}{SIDECAR}{name}", context=TapeContext(None))

    # Forks.

    @asynccontextmanager
    async def fork(self, *, merge_back: bool = True) -> AsyncIterator[Tape]:
        """A tape that has all of this one, and whose own entries join it when the block is left (BEHAVIOURS P16-P18).

        They are written as one transaction, also when the block fails; with `merge_back` False they are forgotten.
        A reset in the fork hides what came before at once, and takes place when the block is left. What the fork
        writes to sidecars is written first, so that the tape speaks of nothing that is not there.
        """
        store = _ForkedStore(self)
        await store.fork_of(self.name)
        try:
            yield replace(self, store=store)
        finally:
            if merge_back:
                with trio.CancelScope(shield=True):  # what happened is written, whoever wants to leave
                    await self._merge(store)

    async def _merge(self, store: _ForkedStore) -> None:
        own = store.forks.pop(self.name)
        failed = []
        for name, fork in store.forks.items():
            try:
                await replace(self, name=name)._join(fork)
            except Exception as error:  # noqa: BLE001 (whatever its store does, the tape goes on)
                failed.append(_sidecar_failed(name, "merge", error))
        own.extend(failed)
        await self._join(own)

    async def _join(self, fork: Fork) -> None:
        if fork.was_reset:
            await self.forget()
        if fork.own:
            await self.append(*fork.own)

    async def _call(self, method: Callable[..., Any], *arguments: Any, long: bool = False) -> Any:
        return await call_store(self.store, method, *arguments, long=long)


async def list_tapes(store: TapeStore | AsyncTapeStore) -> list[str]:
    """The names of all tapes of a store, sidecars included, sorted."""
    return sorted(await call_store(store, store.list_tapes))


async def call_store(store: Any, method: Callable[..., Any], *arguments: Any, long: bool = False) -> Any:
    """What a method of a store gives; whatever may wait, or takes `long`, runs in a thread."""
    if inspect.iscoroutinefunction(method):
        return await method(*arguments)
    if long or getattr(store, "blocks", True):
        return await trio.to_thread.run_sync(method, *arguments)
    return method(*arguments)


def _sidecar_failed(tape: str, action: str, error: Exception) -> TapeEntry:
    log_exception("tape.sidecar_failed", error, tape=tape, action=action)
    return TapeEntry.event("sidecar_failed", {"tape": tape, "action": action, "error": str(error)})


class _ForkedStore:
    """The store of a fork: own entries behind those of the tape it was forked from, and of its sidecars."""

    def __init__(self, parent: Tape) -> None:
        self._parent = parent
        self.forks: dict[str, Fork] = {}

    async def fork_of(self, tape: str) -> Fork:
        """What was written to a tape in this fork."""
        if tape not in self.forks:
            last = await self._parent.fetch(TapeQuery(tape).newest().limit(1))
            self.forks.setdefault(tape, Fork(tape, last))  # somebody else may have come first meanwhile
        return self.forks[tape]

    async def list_tapes(self) -> list[str]:
        names = set(await list_tapes(self._parent.store))
        for name, fork in self.forks.items():
            if fork.own:
                names.add(name)
            elif fork.was_reset:
                names.discard(name)
        return sorted(names)

    async def append(self, tape: str, entry: TapeEntry) -> None:
        (await self.fork_of(tape)).extend([entry])

    async def extend(self, tape: str, entries: Sequence[TapeEntry]) -> None:
        (await self.fork_of(tape)).extend(entries)

    async def fetch_all(self, query: TapeQuery) -> Iterable[TapeEntry]:
        fork = self.forks.get(query.tape)
        return await (fork.fetch(query, self._parent.fetch) if fork is not None else self._parent.fetch(query))

    async def reset(self, tape: str) -> None:
        (await self.fork_of(tape)).reset()
