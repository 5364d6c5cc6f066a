"""What the inbox keeps of calls: questions to people, what they said, which calls of a turn have begun and ended."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import msgspec
from msgspec import structs

from bub.approval import Approval, NotedCall, NotSpentError
from bub.tape.entry import mend

OPEN, YES, NO, SPENT, OVER = "open", "yes", "no", "spent", "over"
"""The states of a question: nobody has answered, a yes, a no, a yes that is used up, nobody wants to know."""

_TABLES = (
    """
create table if not exists questions (
    id integer primary key autoincrement, workspace integer not null, turn integer not null, bound text not null,
    approval text not null, call_id text not null, asked text not null, channel text not null, chat_id text not null,
    at real not null, state text not null default 'open', said_by text not null default '',
    shown text not null default ''
)
""",
    """
create table if not exists calls (
    id integer primary key autoincrement, workspace integer not null, turn integer not null, call_id text not null,
    tool text not null, arguments text not null, ended integer not null default 0
)
""",
    "create index if not exists calls_of_turn on calls (workspace, turn)",
)
"""`turn` is the id of the first message that a turn answers. Made at their first use, as notes are."""

_COLUMNS = "id, turn, approval, call_id, asked, channel, chat_id, at, state, said_by, shown"


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question in the store about the call `call_id`, asked `at` a Unix time; `asked` is what a person reads of it.

    `state` is `OPEN`, `YES`, `NO`, `SPENT` or `OVER`, `by` who answered, `shown` the channel's name for what shows it.
    """

    approval: Approval
    turn: int
    call_id: str
    asked: str
    channel: str
    chat_id: str
    at: float
    state: str = OPEN
    by: str = ""
    shown: str = ""

    @property
    def id(self) -> str:
        """What people name it by, such as `q7`."""
        return self.approval.id


class Questions:
    """The questions and calls of one workspace; `db` gives the open file, and `workspace` its number there."""

    def __init__(self, db: Callable[[], sqlite3.Connection], workspace: Callable[[], int]) -> None:
        self._get_db = db
        self._get_workspace = workspace

    def ask(self, wanted: AskedQuestion, other_than: Collection[str]) -> AskedQuestion:
        """Keep a question; one of an earlier process that is bound to just the same is taken up, answered or not.

        `other_than` are the ids that this process knows.
        """
        for kept in self._read("turn = ? and bound = ?", (wanted.turn, wanted.approval.bound)):
            if kept.state in (OPEN, YES) and kept.approval.until > time.time() and kept.id not in other_than:
                return kept
        told = (wanted.approval.bound, "", wanted.call_id, wanted.asked, wanted.channel, wanted.chat_id)
        key = self._db.execute(
            "insert into questions (workspace, turn, bound, approval, call_id, asked, channel, chat_id, at)"
            " values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (self._workspace, wanted.turn, *map(mend, told), wanted.at),
        ).lastrowid
        approval = structs.replace(wanted.approval, id=f"q{key}")
        body = msgspec.json.encode(mend(msgspec.to_builtins(approval))).decode()
        self._db.execute("update questions set approval = ? where id = ?", (body, key))
        return replace(wanted, approval=approval)

    def open(self) -> list[AskedQuestion]:
        """Return the questions that nobody has answered yet, the oldest first."""
        return [one for one in self._read("state = 'open'", ()) if one.approval.until > time.time()]

    def find(self, name: str) -> AskedQuestion | None:
        """Return a question by what people name it by."""
        return next(iter(self._read("id = ?", (_key_of(name),))), None)

    def answer(self, name: str, is_yes: bool, by: str) -> bool:
        """Keep what a person said to an open question; says whether it was open."""
        return self._move(name, OPEN, YES if is_yes else NO, by)

    def end(self, name: str) -> None:
        """Let a question be over that was not answered, or whose yes was not used up."""
        self._db.execute(
            "update questions set state = 'over' where workspace = ? and id = ? and state in ('open', 'yes')",
            (self._workspace, _key_of(name)),
        )

    def note_shown(self, name: str, shown: str) -> None:
        """Keep the channel's name for what shows a question."""
        self._db.execute("update questions set shown = ? where id = ?", (mend(shown), _key_of(name)))

    def begin_call(self, turns: Sequence[int], call: NotedCall, approval: str) -> None:
        """Note for turns that a call begins, and use up its yes. Raises `NotSpentError` if there is none for it."""
        if approval:
            kept = self.find(approval)
            if kept is not None and (kept.approval.tool, kept.approval.arguments) != (call.tool, call.arguments):
                raise NotSpentError("it was given for another call")
            if kept is not None and kept.approval.asker:
                raise NotSpentError(f"it was an answer to {kept.approval.asker}")
            if kept is None or not self._move(approval, YES, SPENT, kept.by):
                raise NotSpentError("it was used up or taken back")
            if kept.approval.until <= time.time():
                raise NotSpentError("it is too old")
        self._db.executemany(
            "insert into calls (workspace, turn, call_id, tool, arguments) values (?, ?, ?, ?, ?)",
            [(self._workspace, turn, mend(call.call_id), mend(call.tool), call.arguments) for turn in turns],
        )

    def end_call(self, turns: Sequence[int], call: NotedCall) -> None:
        """Note for turns that a call has ended."""
        self._db.executemany(
            "update calls set ended = 1 where id = (select max(id) from calls"
            " where workspace = ? and turn = ? and call_id = ? and tool = ? and arguments = ?)",
            [(self._workspace, turn, mend(call.call_id), mend(call.tool), call.arguments) for turn in turns],
        )

    def calls(self, turns: Sequence[int]) -> list[NotedCall]:
        """Return the calls that were noted for turns, in order, and those that were only asked about."""
        marks, own = ", ".join("?" * len(turns)), (self._workspace, *turns)
        asked = self._read(f"turn in ({marks}) and state in ('open', 'yes')", turns)
        rows = self._db.execute(
            f"select call_id, tool, arguments, ended from calls where workspace = ? and turn in ({marks}) order by id",
            own,
        )
        begun = [NotedCall(call_id, tool, given, has_ended=bool(ended)) for call_id, tool, given, ended in rows]
        waiting = [NotedCall(one.call_id, one.approval.tool, one.approval.arguments, False) for one in asked]
        return [*begun, *waiting]

    def turns_with_calls(self) -> set[int]:
        """Return the turns for which calls were noted; the file stays as it is if none ever was."""
        db = self._get_db()
        if db.execute("select 1 from sqlite_master where name = 'calls'").fetchone() is None:
            return set()
        rows = db.execute("select distinct turn from calls where workspace = ?", (self._workspace,))
        return {turn for (turn,) in rows}

    def forget(self, turns: Sequence[int]) -> None:
        """Forget all that was asked and called in turns that are over."""
        for table in ("questions", "calls"):
            self._db.executemany(
                f"delete from {table} where workspace = ? and turn = ?", [(self._workspace, one) for one in turns]
            )

    @property
    def _db(self) -> sqlite3.Connection:
        db = self._get_db()
        for statement in _TABLES:
            db.execute(statement)
        return db

    @property
    def _workspace(self) -> int:
        return self._get_workspace()

    def _move(self, name: str, state: str, to: str, by: str) -> bool:
        moved = self._db.execute(
            "update questions set state = ?, said_by = ? where workspace = ? and id = ? and state = ?",
            (to, mend(by), self._workspace, _key_of(name), state),
        )
        return moved.rowcount == 1

    def _read(self, which: str, given: Sequence[object]) -> list[AskedQuestion]:
        rows = self._db.execute(
            f"select {_COLUMNS} from questions where workspace = ? and {which} order by id", (self._workspace, *given)
        ).fetchall()
        return [
            AskedQuestion(
                structs.replace(msgspec.json.decode(approval, type=Approval), id=f"q{key}"),
                turn,
                call_id,
                asked,
                channel,
                chat_id,
                at,
                state,
                by,
                shown,
            )
            for key, turn, approval, call_id, asked, channel, chat_id, at, state, by, shown in rows
        ]


def _key_of(name: str) -> int:
    """Return the number in what people name a question by; one that no question has for what is no such name."""
    number = name.strip().lower().removeprefix("q")
    return int(number) if number.isascii() and number.isdigit() and len(number) < 18 else -1
