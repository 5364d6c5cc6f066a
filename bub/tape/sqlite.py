"""Tapes in one SQLite file: a turn's entries are one transaction, and nothing is read that was not asked for."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

import msgspec

from bub.base.database import PATIENCE, open_database, transaction
from bub.base.private import make_private
from bub.errors import TapeError
from bub.tape.copying.records import Record
from bub.tape.entry import TapeEntry, words_of
from bub.tape.query import TapeQuery, part_as_written
from bub.tape.search.sqlite import SHORTEST_INDEXED, explain_errors, open_for_search, search_everywhere
from bub.tape.store import Stretch, check_name, stop_if_cancelled, stretch_of

_VERSION = 1
_INDEXED_AT_ONCE = 250
_LEFT_TO_SCAN = 500
"""So many entries need not be in the index: a search reads them in less time than its answer takes to be shown."""
_SCANNED_AT_ONCE = 256

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


_COLUMNS = "id, kind, payload, meta, date"
_Row: TypeAlias = tuple[Any, ...]


class SqliteTapeStore:
    """The tapes of all sessions in the SQLite file at `path`, for several threads and processes at once.

    The file and its folder are made at the first use, for their owner only. Raises TapeError when the file cannot be
    used. No turn writes the index that a search uses: a search reads the entries that are not in it yet, and
    where they are many, a thread of the store puts them in afterwards.
    """

    blocks = False
    """A call takes some tens of microseconds, which is less than the way to another thread and back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._process = 0
        self._lock = threading.RLock()
        self._indexer: threading.Thread | None = None
        self._closing = threading.Event()
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
        self.write_records(tape, [Record.of(entry) for entry in entries])

    def fetch_all(self, query: TapeQuery) -> list[TapeEntry]:
        """The entries that a query wants, in its order."""
        if query.most == 0:
            return []
        with self._reading() as db:
            key = self._key(db, query.tape)
            # An anchor of a tape that does not exist is not there either.
            stretch = stretch_of(query, self)
            if key is None:
                return []
            if query.text is None:
                return self._select(db, key, query, stretch)
        with closing(self._search(key, query, stretch, query.text.casefold())) as found:
            return list(islice(found, query.most))

    def reset(self, tape: str) -> None:
        """Forget a tape; the next entry is its first."""
        with self._writing() as db:
            key = self._key(db, tape)
            if key is not None:
                db.execute("update tapes set name = null, dropped = 1 where id = ?", (key,))
                db.execute("delete from entries where tape = ?", (key,))

    # What copies ask for (`Records`).

    def is_there(self) -> bool:
        """Whether there is a file."""
        return self.path.exists()

    def read_records(self, tape: str, after: int) -> Iterator[Record]:
        """The entries behind an id, as they lie there."""
        statement = "select kind, payload, meta, date from entries where tape = ? and id > ? order by id"
        with self._reading() as db:
            for kind, payload, meta, date in db.execute(statement, (self._key(db, tape), after)):
                yield Record(kind, payload.encode(), meta.encode(), date)

    def write_records(self, tape: str, records: Sequence[Record]) -> None:
        """Write entries at the end of a tape, all or none."""
        rows = [(one.kind, one.anchor, one.payload.decode(), one.meta.decode(), one.date) for one in records]
        with self._writing() as db:
            key, last = db.execute(_END_OF_TAPE, (check_name(tape),)).fetchone() or (None, 0)
            if key is None:
                key = db.execute("insert into tapes (name) values (?)", (tape,)).lastrowid
            db.executemany(
                "insert into entries (tape, id, kind, anchor, payload, meta, date) values (?, ?, ?, ?, ?, ?, ?)",
                ((key, last + index, *row) for index, row in enumerate(rows, start=1)),
            )

    def settle(self, tapes: Iterable[str]) -> None:
        """Have everything lie on the disk, whatever the tapes."""
        with self._reading() as db:
            db.execute("pragma wal_checkpoint(full)")

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
        self._closing.set()
        if self._indexer is not None:
            self._indexer.join()
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    def _select(self, db: sqlite3.Connection, key: int, query: TapeQuery, stretch: Stretch) -> list[TapeEntry]:
        where, given = _conditions(key, query, stretch)
        statement = f"select {_COLUMNS} from entries where {where} order by id {'desc' if query.backwards else 'asc'}"
        if query.most is not None:
            statement += f" limit {query.most:d}"
        return [self._entry(row) for row in db.execute(statement, given)]

    # Searching for a text.

    def search_all(self, beginning: str, text: str, most: int) -> list[tuple[str, TapeEntry]]:
        """The newest entries with a text in all tapes whose names have a beginning, each with its tape, newest first.

        Sidecars are left out.
        """
        with self._reading() as db:
            done = self._look_at_index(db)
        return list(islice(search_everywhere(self.path, done, beginning, text), most))

    def _search(self, key: int, query: TapeQuery, stretch: Stretch, folded: str) -> Generator[TapeEntry]:
        """The entries in which a text stands: old ones by the index, newer ones, and those that it cannot find, read.

        Nobody who writes waits for long meanwhile.
        """
        indexed = self._last_indexed(key) if len(folded) >= SHORTEST_INDEXED else 0
        by_index = stretch._replace(before=min(indexed + 1, stretch.before or indexed + 1))
        by_reading = stretch._replace(after=max(indexed, stretch.after))
        parts = [self._look_up(key, query, by_index, folded), self._scan(key, query, by_reading, folded)]
        for part in reversed(parts) if query.backwards else parts:
            with closing(part):
                for rows in part:
                    stop_if_cancelled()
                    yield from filter(query.wants, map(self._entry, rows))

    def _look_up(self, key: int, query: TapeQuery, stretch: Stretch, folded: str) -> Generator[list[_Row]]:
        """What the index knows, a slice at a time.

        The index is that of all tapes, so it may take long to walk through what others have; nobody waits for it.
        """
        if stretch.before is not None and stretch.before <= stretch.after + 1:
            return
        where, given = _conditions(key, query, stretch)
        # The index comes first, in the order of writing: few entries have the text, or the first ones are enough.
        statement = (
            f"select {_COLUMNS} from words cross join entries on entries.seq = words.rowid where {where}"
            f" and words match ? order by words.rowid {'desc' if query.backwards else 'asc'}"
        )
        with open_for_search(self.path) as db:
            found = db.execute(statement, (*given, '"' + folded.replace('"', '""') + '"'))
            while rows := found.fetchmany(_SCANNED_AT_ONCE):
                yield rows

    def _scan(self, key: int, query: TapeQuery, stretch: Stretch, folded: str) -> Generator[list[_Row]]:
        """The entries of a stretch that may have a text, a slice of the tape at a time, and others in between."""
        part, order = part_as_written(folded), "desc" if query.backwards else "asc"
        with self._reading() as db:
            (end,) = db.execute("select max(id) + 1 from entries where tape = ?", (key,)).fetchone()
        first, behind = stretch.after + 1, min(end or 0, stretch.before or end or 0)
        starts = range(first, behind, _SCANNED_AT_ONCE)
        for start in reversed(starts) if query.backwards else starts:
            where, given = _conditions(key, query, Stretch(start - 1, min(start + _SCANNED_AT_ONCE, behind)))
            statement = (
                f"select {_COLUMNS} from entries where {where} and instr(casefold(payload), ?) order by id {order}"
            )
            with self._reading() as db:
                rows = db.execute(statement, (*given, part)).fetchall()
            yield rows

    def _last_indexed(self, key: int) -> int:
        """The last entry of a tape that the index has; 0 for none. Has the others put in, where they are many."""
        with self._reading() as db:
            done = self._look_at_index(db)
            statement = "select id from entries where tape = ? and seq <= ? order by id desc limit 1"
            row = db.execute(statement, (key, done)).fetchone()
        return row[0] if row else 0

    # The index.

    def _look_at_index(self, db: sqlite3.Connection) -> int:
        """The last entry of all that the index has. Has the others put in, where they are many."""
        done, newest = db.execute("select seq, (select max(seq) from entries) from indexed").fetchone()
        if newest is not None and newest - done > _LEFT_TO_SCAN:
            self._index_in_background()
        return int(done)

    def _index_in_background(self) -> None:
        if self._indexer is None or not self._indexer.is_alive():
            self._closing.clear()
            self._indexer = threading.Thread(target=self._index_slowly, name="bub-tape-index", daemon=True)
            self._indexer.start()

    def _index_slowly(self) -> None:
        """Bring the index up to date with as much time after a slice as it took, so that nobody waits for long."""
        took = 0.0
        with suppress(TapeError):  # a search does without the index, and the next one tries again
            while not self._closing.wait(took):
                began = perf_counter()
                if not self._index_slice():
                    return
                took = perf_counter() - began

    def _index_slice(self) -> bool:
        """Put some entries into the index; False if there were none."""
        with self._reading() as db:
            (done,) = db.execute("select seq from indexed").fetchone()
            statement = "select seq, payload from entries where seq > ? order by seq limit ?"
            rows = db.execute(statement, (done, _INDEXED_AT_ONCE)).fetchall()
        words = [(seq, words_of(self._decode(payload)).casefold()) for seq, payload in rows]
        with self._reading() as db, _without_patience(db), transaction(db):
            # Another process may have been here meanwhile.
            if words and db.execute("update indexed set seq = ? where seq = ?", (words[-1][0], done)).rowcount:
                db.executemany("insert into words (rowid, text) values (?, ?)", words)
        return bool(words)

    # Rows.

    def _entry(self, row: _Row) -> TapeEntry:
        number, kind, payload, meta, date = row[:5]
        return TapeEntry(number, kind, self._decode(payload), self._decode(meta), date)

    def _key(self, db: sqlite3.Connection, tape: str) -> int | None:
        row = db.execute("select id from tapes where name = ?", (tape,)).fetchone()
        return row[0] if row else None

    # The file.

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock, explain_errors(self.path):
            yield self._connect()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, from its beginning the only one that writes."""
        with self._lock, explain_errors(self.path):
            db = self._connect()
            with transaction(db):
                yield db

    def _connect(self) -> sqlite3.Connection:
        # A connection must not be taken along into a child process.
        if self._connection is None or self._process != os.getpid():
            self._connection, self._process = _open(self.path), os.getpid()
        return self._connection


def _conditions(key: int, query: TapeQuery, stretch: Stretch) -> tuple[str, list[Any]]:
    """What a row of `entries` has to be for a query, its text apart; and the values for it."""
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
    return " and ".join(where), given


def _open(path: Path) -> sqlite3.Connection:
    make_private(path.parent)
    db = open_database(path, _TABLES, _VERSION, synchronous="normal", patience=PATIENCE)
    db.create_function("casefold", 1, str.casefold, deterministic=True)
    return db


@contextmanager
def _without_patience(db: sqlite3.Connection) -> Iterator[None]:
    """Fail at once if another process writes, instead of having all who use this connection wait for it."""
    db.execute("pragma busy_timeout = 0")
    try:
        yield
    finally:
        db.execute(f"pragma busy_timeout = {PATIENCE * 1000:.0f}")
