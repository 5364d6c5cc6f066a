"""Everything that an inbox in a SQLite file has, as a copy carries it, out of the file and into it."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import structs

from bub.approval import Approval, NotedCall
from bub.inbox.copying.records import (
    Fired,
    InboxRecord,
    Message,
    Note,
    Numbers,
    Own,
    Progress,
    Reply,
    Taken,
)
from bub.inbox.questions import AskedQuestion
from bub.inbox.schedules.firing import Firing
from bub.inbox.sqlite import SqliteInbox, read_number
from bub.tape.entry import mend

_TABLES = (
    *("messages", "replies", "taken", "notes", "questions", "calls"),
    *("schedules", "firings", "own_schedules"),
)


class FileInbox:
    """All that an agent with a certain memory has in the file at `path`, or in none; opened as half as it may be.

    Everything raises `MailboxError` if the file cannot be used.
    """

    def __init__(self, path: Path | None, memory: str) -> None:
        self._inbox = SqliteInbox(path, Path())
        self._inbox.workspace = memory

    def open(self) -> None:
        """Open the file."""
        self._inbox.open(is_half=True)

    def close(self) -> None:
        """Close the file."""
        self._inbox.close()

    def read(self) -> Iterator[InboxRecord]:
        """Give everything that is there, in order."""
        with self._inbox.holding() as (db, key):
            tables = {name for (name,) in db.execute("select name from sqlite_master where type = 'table'")}
            yield Numbers(_last_number(db, "questions"), _last_number(db, "own_schedules"))
            if "schedules" in tables:
                rows = db.execute(
                    "select name, rule, since, missed from schedules where workspace = ? order by name", (key,)
                )
                yield from (Progress(*row) for row in rows)
            if "own_schedules" in tables:
                rows = db.execute(
                    "select number, profile, body from own_schedules where workspace = ? order by number", (key,)
                )
                yield from (Own(*row) for row in rows)
            if "firings" in tables:
                rows = db.execute("select schedule, at from firings where workspace = ? order by schedule, at", (key,))
                yield from (Fired(*row) for row in rows)
            rows = db.execute("select channel, name from taken where workspace = ? order by channel, number", (key,))
            yield from (Taken(*row) for row in rows)
            if "notes" in tables:
                rows = db.execute(
                    "select channel, name, value from notes where workspace = ? order by channel, number", (key,)
                )
                yield from (Note(*row) for row in rows)
            yield from _read_messages(
                db, key, self._inbox.schedules.of_messages(), _calls(db, key), _questions(db, key)
            )
            yield from _read_replies(db, key)

    async def write(self, records: AsyncIterator[InboxRecord]) -> None:
        """Put records in place of everything that is there: all of it, or nothing."""
        # Some tables are made at their first use.
        self._inbox.alone(
            lambda: (self._inbox.questions.open(), self._inbox.schedules.followed(), self._inbox.recall(""))
        )
        with self._inbox.holding() as (db, key):
            for table in _TABLES:
                db.execute(f"delete from {table} where workspace = ?", (key,))
            writer = _Writer(db, key)
            async for record in records:
                writer.write(record)


def _read_messages(
    db: sqlite3.Connection,
    key: int,
    fired: Mapping[int, Firing],
    calls: Mapping[int, list[NotedCall]],
    questions: Mapping[int, list[AskedQuestion]],
) -> Iterator[Message]:
    rows = db.execute(
        "select id, channel, chat_id, at, body, draft, attempts, reason from messages where workspace = ? order by id",
        (key,),
    )
    for number, channel, chat_id, at, body, draft, attempts, reason in rows:
        firing = fired.get(number)
        as_told = (firing.schedule, firing.at, firing.profile, firing.is_own) if firing is not None else None
        yield Message(
            str(channel),
            str(chat_id),
            read_number(at),
            str(body),
            str(draft),
            int(read_number(attempts)),
            str(reason) if reason is not None else None,
            as_told,
            tuple(calls.get(number, ())),
            tuple(questions.get(number, ())),
        )


def _read_replies(db: sqlite3.Connection, key: int) -> Iterator[Reply]:
    rows = db.execute(
        "select channel, chat_id, at, body, attempts, not_before, reason from replies where workspace = ? order by id",
        (key,),
    )
    for channel, chat_id, at, body, attempts, not_before, reason in rows:
        said = str(reason) if reason is not None else None
        # What was set aside is due at once when somebody lets it wait again.
        numbers = (int(read_number(attempts)), read_number(not_before) if said is None else 0.0)
        yield Reply(str(channel), str(chat_id), read_number(at), str(body), *numbers, said)


def _calls(db: sqlite3.Connection, key: int) -> Mapping[int, list[NotedCall]]:
    found: dict[int, list[NotedCall]] = defaultdict(list)
    if _has_table(db, "calls"):
        rows = db.execute(
            "select turn, call_id, tool, arguments, ended from calls where workspace = ? order by id", (key,)
        )
        for turn, call_id, tool, arguments, ended in rows:
            found[turn].append(NotedCall(call_id, tool, arguments, has_ended=bool(ended)))
    return found


def _questions(db: sqlite3.Connection, key: int) -> Mapping[int, list[AskedQuestion]]:
    found: dict[int, list[AskedQuestion]] = defaultdict(list)
    if _has_table(db, "questions"):
        rows = db.execute(
            "select id, turn, approval, call_id, asked, channel, chat_id, at, state, said_by, shown from questions"
            " where workspace = ? order by id",
            (key,),
        )
        for number, turn, approval, *told in rows:
            found[turn].append(AskedQuestion(_read_approval(approval, number), 0, *told))
    return found


def _has_table(db: sqlite3.Connection, name: str) -> bool:
    return db.execute("select 1 from sqlite_master where name = ?", (name,)).fetchone() is not None


def _last_number(db: sqlite3.Connection, table: str) -> int:
    row = db.execute("select seq from sqlite_sequence where name = ?", (table,)).fetchone()
    return int(row[0]) if row is not None else 0


def _read_approval(body: str, number: int) -> Approval:
    return structs.replace(msgspec.json.decode(body, type=Approval), id=f"q{number}")


class _Writer:
    """Writes records one by one, in one transaction; people's names for things stay as far as nobody else has them."""

    def __init__(self, db: sqlite3.Connection, key: int) -> None:
        self._db = db
        self._key = key

    def write(self, record: InboxRecord) -> None:
        """Write one."""
        match record:
            case Message():
                self._write_message(record)
            case Reply():
                self._insert(
                    "replies (workspace, channel, chat_id, body, attempts, not_before, at, reason)",
                    *(record.channel, record.chat_id, record.body, record.attempts, record.not_before, record.at),
                    record.reason,
                )
            case Taken() | Note():
                self._write_in_order(record)
            case Progress():
                self._insert("schedules (workspace, name, rule, since, missed)", *structs.astuple(record))
            case Fired():
                self._insert("firings (workspace, schedule, at, own)", record.schedule, record.at, False)
            case Own():
                number = self._free_number("own_schedules", "number", record.number)
                self._insert("own_schedules (workspace, number, profile, body)", number, record.profile, record.body)
            case Numbers():
                self._count_from("questions", record.questions)
                self._count_from("own_schedules", record.schedules)

    def _write_message(self, record: Message) -> None:
        turn = self._insert(
            "messages (workspace, channel, chat_id, body, draft, attempts, at, reason)",
            *(record.channel, record.chat_id, record.body, record.draft, record.attempts, record.at, record.reason),
        )
        if record.firing is not None:
            schedule, at, profile, is_own = record.firing
            self._db.execute(
                "insert into firings (workspace, schedule, at, profile, own, message) values (?, ?, ?, ?, ?, ?)"
                " on conflict (workspace, schedule, at) do update set profile = excluded.profile, own = excluded.own,"
                " message = excluded.message",
                (self._key, schedule, at, profile, is_own, turn),
            )
        for call in record.calls:
            told = (turn, call.call_id, call.tool, call.arguments, call.has_ended)
            self._insert("calls (workspace, turn, call_id, tool, arguments, ended)", *told)
        for one in record.questions:
            wanted = self._free_number("questions", "id", int(one.id.removeprefix("q")))
            number = self._insert(
                "questions (workspace, id, turn, bound, approval, call_id, asked, channel, chat_id, at, state, said_by,"
                " shown)",
                *(wanted, turn, one.approval.bound, "", one.call_id, one.asked, one.channel, one.chat_id, one.at),
                *(one.state, one.by, one.shown),
            )
            approval = structs.replace(one.approval, id=f"q{number}")
            body = msgspec.json.encode(mend(msgspec.to_builtins(approval))).decode()
            self._db.execute("update questions set approval = ? where id = ?", (body, number))

    def _write_in_order(self, record: Taken | Note) -> None:
        """Write what is forgotten in the order in which it was kept."""
        table, value = ("taken", ()) if isinstance(record, Taken) else ("notes", (record.value,))
        (last,) = self._db.execute(
            f"select coalesce(max(number), 0) from {table} where workspace = ? and channel = ?",
            (self._key, record.channel),
        ).fetchone()
        columns = "workspace, channel, number, name" + (", value" if value else "")
        self._insert(f"{table} ({columns})", record.channel, last + 1, record.name, *value)

    def _insert(self, into: str, *values: object) -> int:
        marks = ", ".join("?" * (len(values) + 1))
        return int(self._db.execute(f"insert into {into} values ({marks})", (self._key, *values)).lastrowid or 0)

    def _free_number(self, table: str, column: str, number: int) -> int | None:
        """Return a number if nobody has it, else None, for the next one: all agents of a file count together."""
        row = self._db.execute(f"select 1 from {table} where {column} = ?", (number,)).fetchone()
        return number if row is None else None

    def _count_from(self, table: str, number: int) -> None:
        """Give no number again up to one."""
        if not self._db.execute(
            "update sqlite_sequence set seq = max(seq, ?) where name = ?", (number, table)
        ).rowcount:
            self._db.execute("insert into sqlite_sequence (name, seq) values (?, ?)", (table, number))
