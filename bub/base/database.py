"""A SQLite file of Bub's own: made for its owner only, with its tables, and what goes wrong put in words."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType

from bub.base.failures import explain_os_error
from bub.base.locate import remedy_for

PATIENCE = 10.0
"""How long, in seconds, a writer waits for another process's transaction."""

_REMEDIES: Mapping[int, str] = MappingProxyType(
    {
        sqlite3.SQLITE_BUSY: "another program holds the file; end it, or try again",
        sqlite3.SQLITE_READONLY: "see that the file and its folder are yours to write",
        sqlite3.SQLITE_CANTOPEN: "see that the file and its folder are yours to write",
        sqlite3.SQLITE_FULL: "make room on the disk",
        sqlite3.SQLITE_CORRUPT: "move the file away to start over, and keep it: most of it can be saved with `sqlite3`",
        sqlite3.SQLITE_NOTADB: "move the file away to start over",
    }
)


_NOT_WRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL)


class NewerFileError(sqlite3.DatabaseError):
    """A file has tables that only a newer Bub knows."""


def open_database(path: Path, tables: str, version: int, *, synchronous: str, patience: float) -> sqlite3.Connection:
    """Open a file in WAL mode, made with the statements of `tables` where it is new; its folder has to be there.

    `synchronous` is "normal" where a power cut may take the newest transactions along, "full" where it may not.
    `patience` is in seconds. Raises sqlite3.Error and OSError, which `explain_failure` puts in words.
    """
    path.touch(mode=0o600)
    db = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False, cached_statements=64)
    try:
        _switch_to_wal(db, patience)
        db.execute(f"pragma synchronous = {synchronous}")
        if synchronous == "full":
            db.execute("pragma fullfsync = 1")  # macOS keeps what was synced in the disk's own memory otherwise
        make_tables(db, tables, version)
    except BaseException:
        db.close()
        raise
    return db


def make_tables(db: sqlite3.Connection, tables: str, version: int) -> None:
    """Make the tables of a new file. Raises NewerFileError where it has others."""
    with transaction(db):
        (found,) = db.execute("pragma user_version").fetchone()
        if found > version:
            raise NewerFileError("it was written by a newer Bub")
        if found == 0:
            for statement in _statements(tables):
                db.execute(statement)
            db.execute(f"pragma user_version = {version}")


class transaction:  # noqa: N801 (used as `closing` and `suppress` are)
    """One transaction, from its beginning the only one that writes.

    No generator: one that Ctrl-C leaves behind between its `yield` and the `with` is collected when the file is closed
    already, and would print a traceback then.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("begin immediate")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._db.execute("commit")
        finally:
            if self._db.in_transaction:  # a full disk ends it by itself
                self._db.execute("rollback")


def explain_failure(path: Path | None, error: sqlite3.Error | OSError) -> tuple[str, str]:
    """What went wrong with a file, and what to do about it."""
    if isinstance(error, OSError):
        return explain_os_error(error), remedy_for(path, "see that the disk has room and the folder is yours")
    if isinstance(error, NewerFileError):
        return str(error), "update Bub, or name another file"
    # The low byte is what happened; what is above it says where.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    remedy = _REMEDIES.get(code, "see that the disk has room and the file is yours")
    return str(error), remedy_for(path, remedy) if code in _NOT_WRITABLE else remedy


def _switch_to_wal(db: sqlite3.Connection, patience: float) -> None:
    """Let readers and a writer work at once. SQLite does not wait by itself where another process is just doing so."""
    given_up = time.monotonic() + patience
    while True:
        try:
            if db.execute("pragma journal_mode").fetchone() != ("wal",):
                db.execute("pragma journal_mode = wal")
        except sqlite3.OperationalError:
            if time.monotonic() > given_up:
                raise
            time.sleep(0.005)
        else:
            return


def _statements(script: str) -> Iterator[str]:
    """The statements of a script one by one: `executescript` would end the transaction."""
    statement = ""
    for line in script.splitlines():
        statement += f"{line}\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
