"""Tapes in one SQLite file: a turn's entries are one transaction, and nothing is read that was not asked for."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bub.base.database import PATIENCE, explain_failure, open_database, transaction
from bub.base.private import make_private
from bub.errors import TapeError
from bub.tape.entry import TapeEntry, mend, words_of
from bub.tape.query import TapeQuery
from bub.tape.store import Stretch, check_name, encode_entry, stretch_of

_VERSION = 1
_SHORTEST_INDEXED = 3
"""Letters of the shortest text that the index of three letters each can find."""
_INDEXED_AT_ONCE = 2_000

# A tape that was reset keeps its rows until they are removed, but no longer has a name. No `seq` is ever given twice:
# the index of words goes by it.
_TABLES = """
create table tapes (id integer primary key, name text unique, dropped integer not null default 0);
create table entries (
    seq integer primary key autoincrement, tape integer not null references tapes, id integer not null,
    kind text not null, anchor text, payload text not null, meta text not null, date text not null, unique (tape, id)
);
create index entries_by_kind on entries (tape, kind, id);
create index entries_by_anchor on entries (tape, anchor, id) where anchor is not null;
create virtual table words using fts5 (text, content='', tokenize='trigram case_sensitive 1');
create table indexed (only integer primary key check (only = 1), seq integer not null);
insert into indexed values (1, 0);
create trigger entries_stay before update on entries begin select raise(abort, 'a tape is only ever appended to'); end;
create trigger entries_are_kept before delete on entries
    when not exists (select 1 from tapes where id = old.tape and dropped)
    begin select raise(abort, 'a tape is only ever appended to'); end;
"""

_END_OF_TAPE = """
select id, (select coalesce(max(entries.id), 0) from entries where tape = tapes.id) from tapes where name = ?
"""


class SqliteTapeStore:
    """The tapes of all sessions in the SQLite file at `path`, for several threads and processes at once.

    The file and its folder are made at the first use, for their owner only. Raises TapeError when the file cannot be
    used. A search brings the index of texts up to date; writing a turn does not.
    """

    blocks = False
    """A call takes some tens of microseconds, which is less than the way to another thread and back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._process = 0
        self._lock = threading.RLock()
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder().decode

    # The protocol.

    def list_tapes(self) -> list[str]:
        """The names of all tapes, sorted."""
        with self._reading() as db:
            return [name for (name,) in db.execute("select name from tapes where name is not null order by name")]

    def append(self, tape: str, entry: TapeEntry) -> None:
        """Write one entry at the end of a tape."""
        self.extend(tape, [entry])

    def extend(self, tape: str, entries: Sequence[TapeEntry]) -> None:
        """Write entries at the end of a tape, all or none: after a crash no half of them is there."""
        rows = [
            (
                mend(entry.kind),
                mend(entry.anchor_name),
                self._text(entry.payload),
                self._text(entry.meta),
                entry.date,
            )
            for entry in entries
        ]
        with self._writing() as db:
            key, last = db.execute(_END_OF_TAPE, (check_name(tape),)).fetchone() or (None, 0)
            if key is None:
                key = db.execute("insert into tapes (name) values (?)", (tape,)).lastrowid
            db.executemany(
                "insert into entries (tape, id, kind, anchor, payload, meta, date) values (?, ?, ?, ?, ?, ?, ?)",
                ((key, last + index, *row) for index, row in enumerate(rows, start=1)),
            )

    def fetch_all(self, query: TapeQuery) -> list[TapeEntry]:
        """The entries that a query wants, in its order."""
        if query.most == 0:
            return []
        if query.text is not None and len(query.text.casefold()) >= _SHORTEST_INDEXED:
            self._index_words()
        with self._reading() as db:
            key = self._key(db, query.tape)
            if key is None:
                # An anchor of a tape that does not exist is not there either.
                stretch_of(query, self)
                return []
            return self._select(db, key, query, stretch_of(query, self))

    def reset(self, tape: str) -> None:
        """Forget a tape; the next entry is its first."""
        with self._writing() as db:
            key = self._key(db, tape)
            if key is not None:
                db.execute("update tapes set name = null, dropped = 1 where id = ?", (key,))
                db.execute("delete from entries where tape = ?", (key,))

    # What queries ask for.

    def last_anchor(self, tape: str, name: str | None) -> int | None:
        """The id of the last anchor, of this name if one is given."""
        which, given = ("anchor = ?", (name,)) if name is not None else ("kind = 'anchor'", ())
        with self._reading() as db:
            row = db.execute(
                f"select max(id) from entries where tape = (select id from tapes where name = ?) and {which}",
                (tape, *given),
            ).fetchone()
        return row[0] if row else None

    def next_anchor(self, tape: str, after: int, name: str) -> int | None:
        """The id of the first anchor of this name behind an entry."""
        with self._reading() as db:
            row = db.execute(
                "select min(id) from entries where tape = (select id from tapes where name = ?)"
                " and anchor = ? and id > ?",
                (tape, name, after),
            ).fetchone()
        return row[0] if row else None

    def size(self) -> int:
        """How many bytes the tapes take on the disk."""
        return sum(file.stat().st_size for end in ("", "-wal") if (file := Path(f"{self.path}{end}")).exists())

    def close(self) -> None:
        """Close the file; the next call opens it again. Whoever closes it last leaves one file behind."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    def _select(self, db: sqlite3.Connection, key: int, query: TapeQuery, stretch: Stretch) -> list[TapeEntry]:
        where, given = ["tape = ?", "id > ?"], [key, stretch.after]
        if stretch.before is not None:
            where.append("id < ?")
            given.append(stretch.before)
        if query.only:
            where.append(f"kind in ({', '.join('?' * len(query.only))})")
            given += query.only  # type: ignore[arg-type]
        if query.since is not None:
            where.append("date between ? and ?")
            given += [query.since, query.until]  # type: ignore[list-item]
        source, order = "entries", "id"
        folded = query.text.casefold() if query.text is not None else ""
        if len(folded) >= _SHORTEST_INDEXED:
            # The index comes first, in the order of writing: few entries have the text, or the first ones are enough.
            source, order = "words cross join entries on entries.seq = words.rowid", "words.rowid"
            where.append("words match ?")
            given.append('"' + folded.replace('"', '""') + '"')  # type: ignore[arg-type]
        statement = (
            f"select id, kind, payload, meta, date from {source} where {' and '.join(where)}"
            f" order by {order} {'desc' if query.backwards else 'asc'}"
        )
        if query.most is not None and query.text is None:
            statement += f" limit {query.most:d}"
        found = []
        for number, kind, payload, meta, date in db.execute(statement, given):
            entry = TapeEntry(number, kind, self._decode(payload), self._decode(meta), date)
            if query.text is None or query.wants(entry):
                found.append(entry)
                if query.most is not None and len(found) == query.most:
                    break
        return found

    def _index_words(self) -> None:
        """Bring the index of words up to date, a piece at a time so that writers need not wait long."""
        while True:
            with self._reading() as db:
                (done,) = db.execute("select seq from indexed").fetchone()
                if not db.execute("select 1 from entries where seq > ? limit 1", (done,)).fetchone():
                    return
            with self._writing() as db:
                (done,) = db.execute("select seq from indexed").fetchone()
                rows = db.execute(
                    "select seq, payload from entries where seq > ? order by seq limit ?", (done, _INDEXED_AT_ONCE)
                ).fetchall()
                db.executemany(
                    "insert into words (rowid, text) values (?, ?)",
                    ((seq, words_of(self._decode(payload)).casefold()) for seq, payload in rows),
                )
                if rows:
                    db.execute("update indexed set seq = ?", (rows[-1][0],))

    def _key(self, db: sqlite3.Connection, tape: str) -> int | None:
        row = db.execute("select id from tapes where name = ?", (tape,)).fetchone()
        return row[0] if row else None

    def _text(self, value: dict[str, Any]) -> str:
        return encode_entry(self._encode, value).decode()

    # The file.

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock, _explain_errors(self.path):
            yield self._connect()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, from its beginning the only one that writes."""
        with self._lock, _explain_errors(self.path):
            db = self._connect()
            with transaction(db):
                yield db

    def _connect(self) -> sqlite3.Connection:
        # A connection must not be taken along into a child process.
        if self._connection is None or self._process != os.getpid():
            self._connection, self._process = _open(self.path), os.getpid()
        return self._connection


def _open(path: Path) -> sqlite3.Connection:
    make_private(path.parent)
    return open_database(path, _TABLES, _VERSION, synchronous="normal", patience=PATIENCE)


@contextmanager
def _explain_errors(path: Path) -> Iterator[None]:
    """Turns what SQLite and the file system say into a TapeError."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        problem, remedy = explain_failure(error)
        raise TapeError(f"the tapes in {path} cannot be used: {problem}", help=remedy, reason="unavailable") from error
