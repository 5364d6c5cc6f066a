"""The tapes of an agent for the page: its sessions, a tape page by page, a search through all, the part of a turn."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import trio

from bub.base.identity.agents import memory_of
from bub.base.layout import Line
from bub.secrets.redactor import Redactor
from bub.studio.views.loaded import NotThereError
from bub.studio.views.rows import cover, moment_of, row_of
from bub.tape.entry import TapeEntry, text_of
from bub.tape.query import TapeQuery
from bub.tape.shelf import Store
from bub.tape.tape import BOOTSTRAP, SIDECAR, call_store, list_tapes, prefix_of, tape_name
from bub.tape.transcript import excerpt, is_bookkeeping

MOST_ON_A_PAGE = 200
"""How many sessions, entries or hits are given at once at most."""

_COUNTED = 2_000
"""Of a tape with more messages than this, its turns are not counted."""
_LAST_WORDS, _EXCERPT = 200, 160
_PATIENCE = 3.0
"""How long, in seconds, tapes are looked through one by one, if their store cannot look through all at once."""
_SLACK = 0.00001
"""How far apart, in seconds, two notes of one moment may be."""
_MOST_OF_A_TURN = 500


async def list_sessions(
    store: Store, workspace: Path, mask: Redactor, *, most: int = 50, before: float | None = None
) -> dict[str, Any]:
    """Return the sessions of the agent of a workspace, the one that was used last first, and if there are `more`.

    Each has `session`, `at` (Unix seconds of its last entry), `entries`, `turns` (None if there are too many to count)
    and the last words in `text`. `before` asks for those that were used last before that moment.
    """
    names = await _names(store, workspace)
    newest = await _ask_each(store, [TapeQuery(name).newest().limit(1) for name in names])
    used = [(found[0], name) for name, found in zip(names, newest, strict=True) if found]
    used = [(last, name) for last, name in used if before is None or (moment_of(last) or 0.0) < before]
    used.sort(key=lambda one: one[0].date, reverse=True)
    shown = used[: max(1, min(most, MOST_ON_A_PAGE))]
    asked = [TapeQuery(name).kinds("message").newest().limit(_COUNTED + 1) for _, name in shown]
    said = await _ask_each(store, asked)
    sessions = await _sessions_of(store, [name for _, name in shown])
    return {
        "sessions": [
            {
                "session": mask.text(sessions[name]),
                "at": moment_of(last),
                "entries": last.id,
                "turns": sum(entry.begins_turn for entry in messages) if len(messages) <= _COUNTED else None,
                "text": cover(text_of(messages[0].payload.get("content")), mask, _LAST_WORDS) if messages else "",
            }
            for (last, name), messages in zip(shown, said, strict=True)
        ],
        "more": len(used) > len(shown),
    }


async def read_tape(
    store: Store,
    workspace: Path,
    session: str,
    mask: Redactor,
    *,
    before: int | None = None,
    limit: int = 50,
    everything: bool = True,
) -> dict[str, Any]:
    """Return a page of a session's tape: `entries` in the order of writing, the last `limit` or those `before` an id.

    `more` says whether there are older ones. If not `everything`, Bub's bookkeeping is left out, so that a page may be
    shorter. Raises `NotThereError` if the session has no tape.
    """
    count = max(1, min(limit, MOST_ON_A_PAGE))
    name = tape_name(workspace, session)
    query = TapeQuery(name).newest().limit(count)
    entries = await _ask(store, query if before is None else query.before_entry(before))
    if before is not None:  # a store of a plugin may not know this question
        entries = [entry for entry in entries if entry.id < before]
    if not entries and name not in await list_tapes(store):
        raise NotThereError(
            f"there is no tape of session `{session}`", help="the list of sessions shows those there are"
        )
    shown = [entry for entry in reversed(entries) if everything or not is_bookkeeping(entry)]
    return {
        "entries": [row_of(entry, mask) for entry in shown],
        "more": bool(entries) and entries[-1].id > 1,
        "first": entries[-1].id if entries else None,
    }


async def search_tapes(
    store: Store, workspace: Path, text: str, mask: Redactor, *, session: str | None = None, most: int = 50
) -> dict[str, Any]:
    """Return the newest entries of the agent's tapes that have a text, in whatever case, or of one `session`.

    Each is a row with its `session`, and `text` is what is around the place. `partial` says that not all tapes were
    looked through: that took too long.
    """
    count, wanted = max(1, min(most, MOST_ON_A_PAGE)), text.strip()
    found: Sequence[tuple[str, TapeEntry]] = ()
    partial = False
    if wanted and session is not None:
        name = tape_name(workspace, session)
        found = [(name, entry) for entry in await _ask(store, TapeQuery(name).query(wanted).newest().limit(count))]
    elif wanted:
        found, partial = await _search_all(store, workspace, wanted, count)
    sessions = await _sessions_of(store, {name for name, _ in found})
    return {
        "found": [
            {
                **row_of(entry, mask, most=0),
                "text": cover(_as_text(excerpt(entry, wanted, _EXCERPT)), mask, 2 * _EXCERPT),
                "session": mask.text(sessions[name]),
            }
            for name, entry in found
        ],
        "partial": partial,
    }


async def read_turn(
    store: Store, workspace: Path, session: str, held_at: float, ended: float, mask: Redactor
) -> list[dict[str, Any]]:
    """Return the rows that a turn wrote to the tape of its session, which it held from one moment (Unix time) on.

    A tape does not say whose turn an entry is of: they are those from what a person said last until the turn `ended`,
    with what is noted just before that at the beginning of a session or of a turn.
    """
    moments = held_at - _SLACK, max(held_at, ended) + _SLACK
    since, until = (datetime.fromtimestamp(moment, UTC) for moment in moments)
    query = TapeQuery(tape_name(workspace, session)).between_dates(since, until).newest().limit(_MOST_OF_A_TURN)
    entries = (await _ask(store, query))[::-1]
    first = max((index for index, entry in enumerate(entries) if entry.begins_turn), default=0)
    while first and _leads_to_turn(entries[first - 1]):
        first -= 1
    return [row_of(entry, mask) for entry in entries[first:]]


def _leads_to_turn(entry: TapeEntry) -> bool:
    """Whether a turn notes an entry before what the person said: the system prompt, or the tape's first anchor."""
    if entry.kind == "event":  # each anchor has one behind it
        data = entry.payload.get("data")
        return entry.payload.get("name") == "handoff" and isinstance(data, dict) and data.get("name") == BOOTSTRAP
    return entry.kind == "system" or entry.anchor_name == BOOTSTRAP


# The store


def _beginning(workspace: Path) -> str:
    """Return how the names of all tapes begin that the agent of a workspace has."""
    return prefix_of(memory_of(workspace, os.environ))


async def _names(store: Store, workspace: Path) -> list[str]:
    """Return the tapes of the agent of a workspace; sidecars are nobody's concern."""
    beginning = _beginning(workspace)
    return [name for name in await list_tapes(store) if name.startswith(beginning) and SIDECAR not in name]


async def _ask(store: Store, query: TapeQuery) -> list[TapeEntry]:
    """Return the entries that a query wants; what waits for a disk does so in a thread."""
    return list(await call_store(store, store.fetch_all, query, long=True))


async def _ask_each(store: Any, queries: Sequence[TapeQuery]) -> list[list[TapeEntry]]:
    """Return the entries that each query wants, with one way to a thread for all."""
    if inspect.iscoroutinefunction(store.fetch_all):
        return [list(await store.fetch_all(query)) for query in queries]
    return await trio.to_thread.run_sync(lambda: [list(store.fetch_all(query)) for query in queries])


async def _sessions_of(store: Store, names: Iterable[str]) -> dict[str, str]:
    """Return the session of each tape, as its first anchor says; a tape without one is called by its name."""
    asked = list(names)
    first = await _ask_each(store, [TapeQuery(name).limit(1) for name in asked])
    return {name: _session_in(entries) or name for name, entries in zip(asked, first, strict=True)}


def _session_in(entries: Sequence[TapeEntry]) -> str:
    session = entries[0].meta.get("session") if entries and entries[0].anchor_name == BOOTSTRAP else None
    return session if isinstance(session, str) else ""


async def _search_all(
    store: Any, workspace: Path, text: str, most: int
) -> tuple[Sequence[tuple[str, TapeEntry]], bool]:
    """Return the newest hits in all tapes, and whether time was up before all were looked through."""
    if hasattr(store, "search_all"):
        found = await call_store(store, store.search_all, _beginning(workspace), text, most, long=True)
        return list(found), False
    hits: list[tuple[str, TapeEntry]] = []
    with trio.move_on_after(_PATIENCE) as scope:
        for name in await _names(store, workspace):
            query = TapeQuery(name).query(text).newest().limit(most)
            hits += [(name, entry) for entry in await _ask_with_end(store, query)]
    hits.sort(key=lambda hit: hit[1].date, reverse=True)
    return hits[:most], scope.cancelled_caught


async def _ask_with_end(store: Any, query: TapeQuery) -> list[TapeEntry]:
    """As `_ask`, but a thread that looks is left alone once the time is up: it ends by itself."""
    if inspect.iscoroutinefunction(store.fetch_all):
        return list(await store.fetch_all(query))
    return list(await trio.to_thread.run_sync(store.fetch_all, query, abandon_on_cancel=True))


def _as_text(line: Line) -> str:
    return "".join(span.text for span in line)
