"""Searching the file of tapes beside those who write: a connection of its own, and a look through all tapes at once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import trio

from bub.base.database import PATIENCE, explain_failure
from bub.errors import TapeError
from bub.tape.entry import TapeEntry, mend
from bub.tape.query import TapeQuery, part_as_written
from bub.tape.store import stop_if_cancelled
from bub.tape.tape import SIDECAR

SHORTEST_INDEXED = 3
"""Letters of the shortest text that the index of three letters each can find."""

_STEPS_BETWEEN_LOOKS = 10_000
"""After so many of its steps, SQLite looks whether a search was cancelled; it takes about a millisecond for them."""
_READ_AT_ONCE = 256

_Found: TypeAlias = tuple[str, TapeEntry]

_COLUMNS = "tapes.name, entries.id, kind, payload, meta, date"
_TAPES = "cross join tapes on tapes.id = entries.tape where tapes.name glob ? and tapes.name not glob ?"

# What is on the left of a cross join is walked through first: the newest come first, and a few of them are enough.
_BY_READING = f"select {_COLUMNS} from entries {_TAPES} and seq > ? and instr(casefold(payload), ?) order by seq desc"
_BY_INDEX = (
    f"select {_COLUMNS} from words cross join entries on seq = words.rowid {_TAPES} and words match ?"
    " and words.rowid <= ? order by words.rowid desc"
)


def search_everywhere(path: Path, indexed: int, beginning: str, text: str) -> Iterator[_Found]:
    """Yield the entries with a text in all tapes whose names begin so, sidecars left out, the newest first.

    The index has those up to `indexed`; those behind it are read. Raises TapeError when the file cannot be read.
    """
    text = mend(text)
    folded = text.casefold()
    if not folded:
        return
    wanted = TapeQuery("", text)
    given = (f"{_as_glob(beginning)}*", f"*{SIDECAR}*")
    indexed = indexed if len(folded) >= SHORTEST_INDEXED else 0
    phrase = '"' + folded.replace('"', '""') + '"'
    with open_for_search(path) as db:
        db.create_function("casefold", 1, str.casefold, deterministic=True)
        yield from _keep(wanted, _rows(db.execute(_BY_READING, (*given, indexed, part_as_written(folded)))))
        if indexed:
            yield from _keep(wanted, _rows(db.execute(_BY_INDEX, (*given, phrase, indexed))))


def _as_glob(text: str) -> str:
    return "".join(f"[{one}]" if one in "*?[" else one for one in text)


def _rows(found: sqlite3.Cursor) -> Iterator[tuple[Any, ...]]:
    while rows := found.fetchmany(_READ_AT_ONCE):
        stop_if_cancelled()
        yield from rows


def _keep(wanted: TapeQuery, rows: Iterable[tuple[Any, ...]]) -> Iterator[_Found]:
    decode = msgspec.json.Decoder().decode
    for name, number, kind, payload, meta, date in rows:
        entry = TapeEntry(number, kind, decode(payload), decode(meta), date)
        if wanted.wants(entry):
            yield name, entry


@contextmanager
def open_for_search(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection for one search that may take long: who writes need not wait, and it ends when its turn is cancelled.

    Raises TapeError when the file cannot be read.
    """
    address = f"{path.absolute().as_uri()}?mode=rw"  # no file is made where it was removed meanwhile
    with explain_errors(path), closing(sqlite3.connect(address, timeout=PATIENCE, uri=True)) as db:
        db.execute("pragma query_only = 1")
        db.set_progress_handler(_is_cancelled, _STEPS_BETWEEN_LOOKS)
        try:
            yield db
        except sqlite3.OperationalError:
            stop_if_cancelled()
            raise


def _is_cancelled() -> bool:
    try:
        stop_if_cancelled()
    except trio.Cancelled:
        return True
    return False


@contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite and the file system say into a TapeError."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        problem, remedy = explain_failure(path, error)
        raise TapeError(f"the tapes in {path} cannot be used: {problem}", help=remedy, reason="unavailable") from error
