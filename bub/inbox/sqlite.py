"""What a mailbox keeps, in one SQLite file: messages that wait for a turn, replies that wait for their delivery."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bub.approval import NotedCall
from bub.base.database import PATIENCE, explain_failure, make_tables, open_database, transaction
from bub.base.identity.agents import memory_of
from bub.base.private import make_private
from bub.base.surfaces import Surface
from bub.channels.message import ChannelMessage
from bub.inbox import notes
from bub.inbox.questions import Questions
from bub.inbox.schedules.firing import Firing
from bub.inbox.schedules.records import ScheduleRecords
from bub.inbox.store import InboxEntry, Kind, MailboxError, Outgoing, Received
from bub.inbox.texts import UNREADABLE, MessageTexts
from bub.tape.copying.mark import check_whole
from bub.tape.entry import mend

REMEMBERED = 10_000
"""How many names of messages that came are remembered for each channel, so that none is taken twice; how many notes."""

_VERSION = 1

# No id is ever given twice: people name entries by them. One with a `reason` is a dead letter. `requeued` counts
# what `bub inbox` changed, so that a gateway that runs can tell.
_TABLES = """
create table workspaces (id integer primary key, path text not null unique, requeued integer not null default 0);
create table messages (
    id integer primary key autoincrement, workspace integer not null references workspaces, channel text not null,
    chat_id text not null, body text not null, draft text not null, attempts integer not null default 0,
    at real not null, reason text
);
create table replies (
    id integer primary key autoincrement, workspace integer not null references workspaces, channel text not null,
    chat_id text not null, body text not null, attempts integer not null default 0, not_before real not null default 0,
    at real not null, reason text
);
create index messages_of_workspace on messages (workspace, id);
create index replies_of_workspace on replies (workspace, id);
create table taken (
    workspace integer not null, channel text not null, number integer not null, name text not null,
    primary key (workspace, channel, number), unique (workspace, channel, name)
) without rowid;
"""

_T = TypeVar("_T")

_TABLE_OF: dict[Kind, str] = {"message": "messages", "reply": "replies"}
_END_OF_TIME = 1e11
"""Some Unix time that still has a date."""


class SqliteInbox:
    """The messages and replies of one workspace in the file at `path`, or in memory; for one thread at a time.

    Everything between `together` and its end is one transaction; nothing may be asked outside of one. Raises
    MailboxError where the file cannot be used.
    """

    def __init__(self, path: Path | None, workspace: Path) -> None:
        self.path = path
        self.workspace = memory_of(workspace, os.environ)
        self._connection: sqlite3.Connection | None = None
        self._key = 0
        self.texts = MessageTexts()
        self.questions = Questions(lambda: self._db, lambda: self._key)
        self.schedules = ScheduleRecords(lambda: self._db, lambda: self._key)

    # The file.

    def open(self, *, is_half: bool = False) -> None:
        """Open the file, which is made, as its folder is, if it is not there; it is for its owner only.

        Only who goes on with a copy opens one that may be half (`is_half`).
        """
        if self.path is not None and not is_half:
            check_whole(self.path.parent.parent, self.workspace)
        with self._explain_errors():
            if self.path is None:
                db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
                make_tables(db, _TABLES, _VERSION)
            else:
                make_private(self.path.parent)
                db = open_database(self.path, _TABLES, _VERSION, synchronous="full", patience=PATIENCE)
            # A text that somebody spoilt must not keep the others from being read.
            db.text_factory = lambda data: data.decode("utf-8", "replace")
            self._connection = db
            try:
                self._key = self._own_key(db)
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Close the file. Whoever closes it last leaves one file behind."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def holding(self) -> Iterator[tuple[sqlite3.Connection, int]]:
        """Give the file and the workspace's number there, in one transaction, for who copies all that there is."""
        with self._explain_errors(), transaction(self._db):
            yield self._db, self._key

    def alone(self, work: Callable[[], _T]) -> _T:
        """The result of some work, done in a transaction of its own."""
        (came,) = self.together([work])
        if isinstance(came, Exception):
            raise came
        return came

    def together(self, works: Sequence[Callable[[], _T]]) -> list[_T | Exception]:
        """Do several works in one transaction, and return each result: of one that fails its error, undone by itself.

        Where the transaction as a whole fails, each is done in one of its own: what does not fit on the disk must not
        keep others from making room.
        """
        try:
            with self._explain_errors(), transaction(self._db):
                return [self._one_of_many(work) for work in works]
        except MailboxError as error:
            busy = getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
            if len(works) == 1 or busy:  # who waited once in vain need not wait for each
                return [MailboxError(str(error), help=error.help) for _ in works]  # each is raised somewhere else
        return [came for work in works for came in self.together([work])]

    def _one_of_many(self, work: Callable[[], _T]) -> _T | Exception:
        self._db.execute("savepoint work")
        try:
            came: _T | Exception = work()
        except Exception as error:
            if not self._db.in_transaction:  # a full disk ends it by itself
                raise
            self._db.execute("rollback to work")
            came = self._unusable(error) if isinstance(error, sqlite3.Error) else error
        self._db.execute("release work")
        return came

    @property
    def _db(self) -> sqlite3.Connection:
        if self._connection is None:
            raise MailboxError("the inbox is not open")
        return self._connection

    def _own_key(self, db: sqlite3.Connection) -> int:
        path = mend(self.workspace)
        with transaction(db):
            db.execute("insert into workspaces (path) values (?) on conflict do nothing", (path,))
            (key,) = db.execute("select id from workspaces where path = ?", (path,)).fetchone()
        return int(key)

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise self._unusable(error) from error

    def _unusable(self, error: sqlite3.Error | OSError) -> MailboxError:
        problem, remedy = explain_failure(self.path, error)
        unusable = MailboxError(f"the inbox {self.path or 'in memory'} cannot be used: {problem}", help=remedy)
        unusable.__cause__ = error
        return unusable

    # Messages.

    def receive(self, body: str, message: ChannelMessage) -> Received | None:
        """Keep a message, whose text for the file is `body`; None where its `once` was taken before."""
        if message.once and not self._take(message.channel, message.once):
            return None
        at = time.time()
        key = self._db.execute(
            "insert into messages (workspace, channel, chat_id, body, draft, at) values (?, ?, ?, ?, ?, ?)",
            (self._key, message.channel, message.chat_id, body, message.draft, at),
        ).lastrowid
        assert key is not None
        return Received(key, message, 0, at)

    def still_waits(self, message: ChannelMessage) -> bool:
        """Whether a message of this chat with this `once` waits."""
        found = self._db.execute(
            "select 1 from messages where workspace = ? and reason is null and channel = ? and chat_id = ?"
            " and case when json_valid(body) then json_extract(body, '$.once') end = ?",
            (self._key, message.channel, message.chat_id, message.once),
        ).fetchone()
        return found is not None

    def fire(
        self, body: str, message: ChannelMessage, firing: Firing, until: float | None = None, missed: int = 0
    ) -> Received | None:
        """Keep the message of a firing; None if it was claimed before. Without `until`, a person wants it now."""
        if until is None:
            self._count_requeued()  # so that a gateway that runs takes it up
        if not self.schedules.claim(firing, until, missed):
            return None
        received = self.receive(body, message)
        assert received is not None
        self.schedules.link(firing, received.id)
        return replace(received, surface=firing.surface, firing=firing)

    def fire_now(self, message: ChannelMessage, firing: Firing) -> None:
        """Keep the message of a schedule that a person wants to fire beside its own times."""
        body, kept = self.texts.write(message)
        self.alone(lambda: self.fire(body, kept, firing))

    def _take(self, channel: str, name: str) -> bool:
        """Remember the name of a message that came, and forget the oldest one; says whether it is new."""
        own = (self._key, channel)
        (last,) = self._db.execute(
            "select coalesce(max(number), 0) from taken where workspace = ? and channel = ?", own
        ).fetchone()
        new = self._db.execute(
            "insert into taken (workspace, channel, number, name) values (?, ?, ?, ?) on conflict do nothing",
            (*own, last + 1, name),
        ).rowcount
        if new:
            self._db.execute(
                "delete from taken where workspace = ? and channel = ? and number <= ?", (*own, last + 1 - REMEMBERED)
            )
        return bool(new)

    def begin(self, ids: Sequence[int]) -> list[NotedCall]:
        """Count a turn that is about to begin; return the calls that were noted for it before."""
        self._each("update messages set attempts = attempts + 1 where id = ?", ids)
        return self.questions.calls(ids)

    def give_back(self, ids: Sequence[int]) -> None:
        """Do not count a turn that was begun."""
        self._each("update messages set attempts = max(attempts - 1, 0) where id = ?", ids)

    def keep_draft(self, key: int, draft: str) -> None:
        """Keep the name of what shows the answer to a message."""
        self._db.execute("update messages set draft = ? where id = ?", (mend(draft), key))

    def finish(self, ids: Sequence[int], replies: Sequence[tuple[str, ChannelMessage]]) -> list[Outgoing]:
        """Take messages out, and put replies in, each with its text for the file.

        Nothing where the messages are out already: a disk that was given up did it after all, and the replies are in.
        """
        self.questions.forget(ids)
        if self._each("delete from messages where id = ?", ids) == 0 and ids:
            return []
        return [self._post(body, message) for body, message in replies]

    def give_up(self, ids: Sequence[int], reason: str, replies: Sequence[tuple[str, ChannelMessage]]) -> list[Outgoing]:
        """Set messages aside, and put replies in that say so; nothing where that was done already."""
        if self.set_aside("message", ids, reason) == 0:
            return []
        return [self._post(body, message) for body, message in replies]

    def _post(self, body: str, message: ChannelMessage) -> Outgoing:
        key = self._db.execute(
            "insert into replies (workspace, channel, chat_id, body, at) values (?, ?, ?, ?, ?)",
            (self._key, message.channel, message.chat_id, body, time.time()),
        ).lastrowid
        assert key is not None
        return Outgoing(key, message, 0, 0.0)

    def waiting(self) -> list[Received]:
        """The messages that wait, in the order received."""
        return self._read_messages("", ())

    def fetch(self, ids: Sequence[int]) -> list[Received]:
        """Those of these messages that wait, in the order received."""
        return self._read_messages("and id in (select value from json_each(?))", (msgspec.json.encode(ids).decode(),))

    def _read_messages(self, which: str, given: tuple[str, ...]) -> list[Received]:
        found: list[Received] = []
        noted, fired = self.questions.turns_with_calls(), self.schedules.of_messages()
        rows = self._db.execute(
            "select id, body, draft, attempts, at from messages"
            f" where workspace = ? and reason is null {which} order by id",
            (self._key, *given),
        ).fetchall()
        for key, body, draft, attempts, at in rows:
            try:
                message = replace(self.texts.read(body), draft=str(draft))
                firing = fired.get(key)
                surface = firing.surface if firing is not None else Surface.CHANNEL
                found.append(Received(key, message, int(attempts), float(at), surface, key in noted, firing))
            except UNREADABLE as error:
                self.set_aside("message", [key], f"it cannot be read: {error}")
        return found

    # Replies.

    def outgoing(self) -> list[Outgoing]:
        """The replies that wait, in order."""
        found: list[Outgoing] = []
        rows = self._db.execute(
            "select id, body, attempts, not_before from replies where workspace = ? and reason is null order by id",
            (self._key,),
        ).fetchall()
        for key, body, attempts, not_before in rows:
            try:
                found.append(Outgoing(key, self.texts.read(body), int(attempts), float(not_before)))
            except UNREADABLE as error:
                self.set_aside("reply", [key], f"it cannot be read: {error}")
        return found

    def mark_delivered(self, key: int) -> None:
        """Take a reply out."""
        self._db.execute("delete from replies where id = ?", (key,))

    def put_off(self, key: int, not_before: float) -> None:
        """Count a delivery that failed, and say when to try again."""
        self._db.execute("update replies set attempts = attempts + 1, not_before = ? where id = ?", (not_before, key))

    def keep_reply_draft(self, key: int, draft: str) -> None:
        """Keep what the channel notes of a reply."""
        for (body,) in self._db.execute("select body from replies where id = ?", (key,)).fetchall():
            again, _ = self.texts.write(replace(self.texts.read(body), draft=draft))
            self._db.execute("update replies set body = ? where id = ?", (again, key))

    # What channels remember.

    def remember(self, taken: Mapping[notes.Name, str]) -> None:
        """Keep notes, each in place of the last one of its name."""
        notes.write_notes(self._db, self._key, taken, most=REMEMBERED)

    def recall(self, channel: str) -> dict[str, str]:
        """Return the notes of a channel by their names."""
        return notes.read_notes(self._db, self._key, channel)

    # What was set aside.

    def set_aside(self, kind: Kind, ids: Sequence[int], reason: str) -> int:
        """Make dead letters of entries that wait, and say how many; they stay until somebody decides."""
        statement = f"update {_TABLE_OF[kind]} set reason = ? where id = ? and reason is null"
        return self._db.executemany(statement, [(mend(reason), key) for key in ids]).rowcount

    def list_entries(self) -> list[InboxEntry]:
        """List all messages of the workspace, then all replies, each in order."""
        found: list[InboxEntry] = []
        for kind, table in _TABLE_OF.items():
            rows = self._db.execute(
                f"select id, channel, chat_id, at, attempts, reason, body from {table} where workspace = ? order by id",
                (self._key,),
            )
            for key, channel, chat_id, at, attempts, reason, body in rows:
                told = None if reason is None else str(reason)
                where = (str(channel), str(chat_id), read_number(at), int(read_number(attempts)))
                found.append(InboxEntry(kind, key, *where, told, self.texts.read_or_none(body)))
        return found

    def retry(self, kind: Kind, ids: Sequence[int]) -> None:
        """Let dead letters wait again, as if nothing had been tried."""
        also = ", not_before = 0" if kind == "reply" else ""
        self._each(f"update {_TABLE_OF[kind]} set reason = null, attempts = 0{also} where id = ?", ids)
        self._count_requeued()

    def drop(self, kind: Kind, ids: Sequence[int]) -> None:
        """Remove entries for good."""
        self._each(f"delete from {_TABLE_OF[kind]} where id = ?", ids)
        if kind == "message":
            self.questions.forget(ids)
        self._count_requeued()

    def _count_requeued(self) -> None:
        self._db.execute("update workspaces set requeued = requeued + 1 where id = ?", (self._key,))

    def times_requeued(self) -> int:
        """How often somebody changed what was set aside."""
        (times,) = self._db.execute("select requeued from workspaces where id = ?", (self._key,)).fetchone()
        return int(times)

    def count_dead_letters_elsewhere(self) -> dict[str, int]:
        """Count the dead letters of each other workspace that has any."""
        counted = " union all ".join(
            f"select workspace from {table} where reason is not null" for table in _TABLE_OF.values()
        )
        return dict(
            self._db.execute(
                f"select path, count(*) from ({counted}) join workspaces on id = workspace"
                " where id <> ? group by path order by path",
                (self._key,),
            ).fetchall()
        )

    def _each(self, statement: str, ids: Iterable[int]) -> int:
        """Run a statement for each entry, and say how many there were."""
        return self._db.executemany(statement, [(key,) for key in ids]).rowcount


def read_number(value: Any) -> float:
    """A number of a row that somebody may have spoilt."""
    return float(value) if isinstance(value, int | float) and 0 <= value < _END_OF_TIME else 0.0
