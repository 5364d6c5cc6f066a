"""What an inbox in SQLite keeps of schedules: how far each one is, and which of its moments have fired."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import msgspec
from msgspec import structs

from bub.inbox.schedules.firing import Firing, Followed
from bub.inbox.schedules.own import OwnSchedule
from bub.tape.entry import mend

REMEMBERED = 10_000
"""How many firings of a schedule are remembered, so that none of them comes twice if the clock is set back."""

_TABLES = (
    """
create table if not exists schedules (
    workspace integer not null, name text not null, rule text not null, since real not null,
    missed integer not null default 0, primary key (workspace, name)
) without rowid
""",
    """
create table if not exists firings (
    number integer primary key autoincrement, workspace integer not null, schedule text not null, at real not null,
    profile text, own integer not null, message integer, unique (workspace, schedule, at)
)
""",
    "create index if not exists firings_of_messages on firings (message)",
    """
create table if not exists own_schedules (
    number integer primary key autoincrement, workspace integer not null, profile text not null, body text not null
)
""",
)
"""`message` is the message that a firing became. Made at their first use, as notes are."""


class ScheduleRecords:
    """The schedules and firings of one workspace; `db` gives the open file, and `workspace` its number there."""

    def __init__(self, db: Callable[[], sqlite3.Connection], workspace: Callable[[], int]) -> None:
        self._get_db = db
        self._get_workspace = workspace

    def follow(self, name: str, rule: str, now: float) -> Followed:
        """Return how far a schedule is; one that is new, or has another rule than before, begins now."""
        self._db.execute(
            "insert into schedules (workspace, name, rule, since) values (?, ?, ?, ?)"
            " on conflict do update set rule = excluded.rule, since = excluded.since where rule <> excluded.rule",
            (*self._own(name), mend(rule), now),
        )
        (found,) = [one for one in self.followed() if one.name == mend(name)]
        return found

    def unfollow(self, name: str) -> None:
        """Forget how far a schedule is; what has fired stays known."""
        self._db.execute("delete from schedules where workspace = ? and name = ?", self._own(name))

    def followed(self) -> list[Followed]:
        """Return how far each schedule is, by name."""
        rows = self._db.execute(
            "select name, since, (select max(at) from firings as f where f.workspace = s.workspace and schedule = name)"
            ", missed from schedules as s where workspace = ? order by name",
            (self._get_workspace(),),
        )
        return [Followed(str(name), float(since), last, int(missed)) for name, since, last, missed in rows]

    def followed_so_far(self) -> list[Followed]:
        """Return the same, and leave a file as it is that has none."""
        has_table = self._get_db().execute("select 1 from sqlite_master where name = 'schedules'").fetchone()
        return self.followed() if has_table is not None else []

    def pass_over(self, name: str, until: float, missed: int) -> None:
        """Note that every moment up to a time is decided, and how many of them did not fire."""
        self._db.execute(
            "update schedules set since = ?, missed = missed + ? where workspace = ? and name = ?",
            (until, missed, *self._own(name)),
        )

    def claim(self, firing: Firing, until: float | None, missed: int) -> bool:
        """Claim a firing; False if it was claimed before. What is decided up to `until` is, either way."""
        own = self._own(firing.schedule)
        if until is not None:
            self.pass_over(firing.schedule, until, missed)
        is_new = self._db.execute(
            "insert into firings (workspace, schedule, at, profile, own) values (?, ?, ?, ?, ?) on conflict do nothing",
            (*own, firing.at, firing.profile, firing.is_own),
        ).rowcount
        if is_new:
            self._db.execute(
                "delete from firings where workspace = ? and schedule = ? and number <= (select number from firings"
                " where workspace = ? and schedule = ? order by number desc limit 1 offset ?)",
                (*own, *own, REMEMBERED),
            )
        return bool(is_new)

    def link(self, firing: Firing, message: int) -> None:
        """Note which message a firing has become."""
        self._db.execute(
            "update firings set message = ? where workspace = ? and schedule = ? and at = ?",
            (message, *self._own(firing.schedule), firing.at),
        )

    def of_messages(self) -> dict[int, Firing]:
        """Return the firings that wait as messages; the file stays as it is if none ever did."""
        db = self._get_db()
        if db.execute("select 1 from sqlite_master where name = 'firings'").fetchone() is None:
            return {}
        rows = db.execute(
            "select messages.id, schedule, firings.at, profile, own from firings join messages on message = messages.id"
            " where firings.workspace = ?",
            (self._get_workspace(),),
        )
        return {
            message: Firing(str(name), float(at), profile, bool(is_own)) for message, name, at, profile, is_own in rows
        }

    # Those of the agent.

    def add(self, schedule: OwnSchedule, most: int) -> OwnSchedule | None:
        """Keep a schedule of the agent, and name it by a number; None if its profile has `most` of them already."""
        own = (self._get_workspace(), mend(schedule.profile or ""))
        (known,) = self._db.execute(
            "select count(*) from own_schedules where workspace = ? and profile = ?", own
        ).fetchone()
        if known >= most:
            return None
        body = msgspec.json.encode(mend(msgspec.to_builtins(schedule))).decode()
        number = self._db.execute(
            "insert into own_schedules (workspace, profile, body) values (?, ?, ?)", (*own, body)
        ).lastrowid
        return structs.replace(schedule, name=str(number))

    def own(self) -> list[OwnSchedule]:
        """Return the schedules of the agent, the oldest first; the file stays as it is if there never was one."""
        db = self._get_db()
        if db.execute("select 1 from sqlite_master where name = 'own_schedules'").fetchone() is None:
            return []
        rows = db.execute(
            "select number, body from own_schedules where workspace = ? order by number", (self._get_workspace(),)
        )
        read = msgspec.json.Decoder(OwnSchedule).decode
        return [structs.replace(read(body), name=str(number)) for number, body in rows]

    def remove(self, name: str) -> bool:
        """Remove a schedule of the agent; False if there is none of that name."""
        own = (self._get_workspace(), name)
        return bool(
            self._db.execute("delete from own_schedules where workspace = ? and cast(number as text) = ?", own).rowcount
        )

    @property
    def _db(self) -> sqlite3.Connection:
        db = self._get_db()
        for statement in _TABLES:
            db.execute(statement)
        return db

    def _own(self, name: str) -> tuple[int, str]:
        return self._get_workspace(), mend(name)
