"""The conversations of a workspace: when somebody last spoke in each, how long it is, and what it began with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from bub.tape.entry import TapeEntry, text_of
from bub.tape.shelf import Store
from bub.tape.tape import BOOTSTRAP, SIDECAR, Tape, list_tapes, tape_name


class Conversation(msgspec.Struct, frozen=True):
    """A session in which somebody said something; `last` is what they said last, and what was answered."""

    session: str
    last_date: str
    turns: int
    first_words: str
    last: Sequence[tuple[str, str]] = ()


async def conversations(
    store: Store, workspace: Path, *, most: int, other_than: Sequence[str] = ()
) -> list[Conversation]:
    """Return the conversations of a workspace, the latest first.

    It leaves out those of sub-agents, and sessions that begin with one of `other_than`.
    """
    found: list[Conversation] = []
    sessions = await _sessions(store, workspace)
    known = {session for _, session, _ in sessions}
    for date, session, tape in sorted(sessions, key=lambda one: one[0], reverse=True):
        if len(found) == most:
            break
        if session.startswith(tuple(other_than)) or session.rpartition("/")[0] in known:
            continue
        messages = [entry for entry in await tape.fetch(tape.query().kinds("message")) if _said_by(entry)]
        begun = [index for index, entry in enumerate(messages) if entry.begins_turn]
        if begun:
            last = [(_said_by(entry), _text(entry)) for entry in messages[begun[-1] :]]
            found.append(Conversation(session, date, len(begun), _text(messages[begun[0]]), last))
    return found


async def _sessions(store: Store, workspace: Path) -> list[tuple[str, str, Tape]]:
    """The date, the session and the tape of each session of a workspace."""
    own = tape_name(workspace, "").partition("__")[0]
    found = []
    for name in await list_tapes(store):
        if not name.startswith(f"{own}__") or SIDECAR in name:
            continue
        tape = Tape(name, store)
        first = await tape.fetch(tape.query().limit(1))
        session = first[0].meta.get("session") if first and first[0].anchor_name == BOOTSTRAP else None
        if isinstance(session, str):
            newest = await tape.search(tape.query(), most=1)
            found.append((newest[0].date, session, tape))
    return found


def _said_by(entry: TapeEntry) -> str:
    return str(entry.payload.get("role") or "")


def _text(entry: TapeEntry) -> str:
    return text_of(entry.payload.get("content"))
