"""The durable inbox and outbox: a message is on disk before anybody hears that it came, and leaves when answered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import trio

from bub.approval import NotedCall
from bub.channels.message import ChannelMessage
from bub.inbox.file import inbox_file, lock_workspace
from bub.inbox.questions import AskedQuestion
from bub.inbox.schedules.firing import Firing, Followed
from bub.inbox.schedules.own import OwnSchedule
from bub.inbox.sqlite import SqliteInbox
from bub.inbox.store import Claim, FencedError, Id, InboxEntry, Kind, MailboxError, Outgoing, Received, Token

__all__ = ["Mailbox", "MailboxError", "Outgoing", "Received", "inbox_file"]

GIVEN_UP = 30.0
"""How long, in seconds, an answer of the disk is waited for: well behind the patience with another process."""

_T = TypeVar("_T")
_NOTHING_YET = object()


class _InboxRequest:
    """Something to do: `called` when it has come to something, or when whoever asked is to lead the next ones."""

    __slots__ = ("called", "came", "work")

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.called = trio.Event()
        self.came: Any = _NOTHING_YET


class Mailbox:
    """Keeps the messages that a workspace received until they are answered, and the replies until they are delivered.

    `path` is its file, made at the first use for its owner only; None keeps everything in memory. What a method was
    asked is on disk when it returns, also after a power cut. Everything that is asked while the disk is busy becomes
    one transaction, in which each caller still succeeds or fails alone.

    Cancelled before it has begun, a method does nothing; once begun it is done to its end, and returns. Raises
    MailboxError, which says what to do, when the file cannot be used.
    """

    def __init__(self, path: Path | None, workspace: Path) -> None:
        self._store = SqliteInbox(path, workspace)
        self._lock: FileIO | None = None
        self._asked: list[_InboxRequest] = []
        self._notes: dict[tuple[str, str], str] = {}
        self._led = False
        self._limiter = trio.CapacityLimiter(1)
        self._is_open = False
        self._times_requeued = 0
        self._token: Token = ""

    async def open(self) -> None:
        """Open the file, for nobody else. Raises MailboxError where another gateway has it for this workspace."""
        with trio.move_on_after(GIVEN_UP) as scope:
            scope.shield = True  # what was half opened would stay locked
            await self._in_thread(self._open)
            self._token = uuid4().hex
            self._is_open = True
            return
        raise self._report_silence()

    async def close(self) -> None:
        """Close the file once everything that was asked is done."""
        if not self._is_open:
            return
        self._is_open = False
        with trio.move_on_after(GIVEN_UP) as scope:
            scope.shield = True
            with suppress(MailboxError):  # whoever asked for something is told what became of it
                await self._ask(lambda: None)
            await self._in_thread(self._close)

    # The inbox.

    async def receive(self, message: ChannelMessage) -> Received | None:
        """Keep a message; None where one of its channel with the same `once` was received before."""
        return await self._do(self._store.receive, *self._store.texts.write(message))

    async def still_waits(self, message: ChannelMessage) -> bool:
        """Whether the message of its chat that was received before with this `once` waits."""
        return await self._do(self._store.still_waits, self.as_kept(message))

    async def waiting(self) -> list[Received]:
        """The messages that wait for their turn, in the order received. One that cannot be read is set aside."""
        return await self._do(self._store.waiting)

    async def fetch(self, ids: Sequence[Id]) -> list[Received]:
        """Return those of these messages that still wait, in the order received."""
        return await self._do(self._store.fetch, ids)

    async def claim(self, partitions: Collection[str]) -> Claim:
        """What waits in partitions, which are names of channels. The claim lasts until the mailbox is closed.

        The lock of the file keeps everybody else from claiming meanwhile.
        """
        replies = [one for one in await self.outgoing() if one.message.channel in partitions]
        messages = [one for one in await self.waiting() if one.message.channel in partitions]
        return Claim(self._token, tuple(messages), tuple(replies))

    async def begin(self, ids: Sequence[Id], *, token: Token | None = None) -> Sequence[NotedCall]:
        """Count one attempt more, before the turn begins; return the calls noted for it before."""
        self._check(token)
        return await self._do(self._store.begin, ids)

    async def give_back(self, ids: Sequence[Id], *, token: Token | None = None) -> None:
        """Count one attempt less: the turn was cancelled, and is not to blame."""
        self._check(token)
        await self._do(self._store.give_back, ids)

    async def keep_draft(self, id: int, draft: str) -> None:  # noqa: A002 (the reader's word)
        """Keep the channel's name for what shows the answer to a message, which is its `draft` from now on."""
        await self._do(self._store.keep_draft, id, draft)

    async def finish(
        self, ids: Sequence[Id], replies: Sequence[ChannelMessage] = (), *, token: Token | None = None
    ) -> list[Outgoing]:
        """Take messages out of the inbox and put their replies into the outbox, all or nothing."""
        self._check(token)
        return await self._do(self._store.finish, ids, [self._store.texts.write(reply) for reply in replies])

    async def set_aside(
        self, ids: Sequence[Id], reason: str, replies: Sequence[ChannelMessage] = (), *, token: Token | None = None
    ) -> list[Outgoing]:
        """Put messages out of the way, kept for `bub inbox`, and what is replied into the outbox, all or nothing."""
        self._check(token)
        return await self._do(self._store.give_up, ids, reason, [self._store.texts.write(reply) for reply in replies])

    def as_kept(self, message: ChannelMessage) -> ChannelMessage:
        """A message as it comes out again. Raises MailboxError for one that cannot be kept, since it is no JSON."""
        return self._store.texts.write(message)[1]

    # Questions and calls.

    async def ask(self, question: AskedQuestion, *, other_than: Collection[str] = ()) -> AskedQuestion:
        """Keep a question, or take up one of an earlier process that is bound to just the same."""
        return await self._do(self._store.questions.ask, question, frozenset(other_than))

    async def open_questions(self) -> list[AskedQuestion]:
        """Return the questions that nobody has answered yet."""
        return await self._do(self._store.questions.open)

    async def find_question(self, name: str) -> AskedQuestion | None:
        """Return a question by what people name it by."""
        return await self._do(self._store.questions.find, name)

    async def answer(self, name: str, is_yes: bool, by: str) -> bool:
        """Keep what a person said to an open question; says whether it was open."""
        return await self._do(self._store.questions.answer, name, is_yes, by)

    async def end_question(self, name: str) -> None:
        """Let a question be over whose answer nobody waits for."""
        await self._do(self._store.questions.end, name)

    async def note_shown(self, name: str, shown: str) -> None:
        """Keep the channel's name for what shows a question."""
        await self._do(self._store.questions.note_shown, name, shown)

    async def begin_call(self, ids: Sequence[Id], call: NotedCall, approval: str = "") -> None:
        """Note that a call begins and use up its yes, in one transaction."""
        await self._do(self._store.questions.begin_call, tuple(ids), call, approval)

    async def end_call(self, ids: Sequence[Id], call: NotedCall) -> None:
        """Note that a call has ended."""
        await self._do(self._store.questions.end_call, tuple(ids), call)

    # Schedules.

    async def follow(self, name: str, rule: str, now: float) -> Followed:
        """Return how far a schedule is."""
        return await self._do(self._store.schedules.follow, name, rule, now)

    async def unfollow(self, name: str) -> None:
        """Forget how far a schedule is."""
        await self._do(self._store.schedules.unfollow, name)

    async def followed(self) -> list[Followed]:
        """Return how far each schedule is."""
        return await self._do(self._store.schedules.followed)

    async def fire(self, firing: Firing, message: ChannelMessage, *, until: float, missed: int) -> Received | None:
        """Claim a firing and keep its message, in one transaction."""
        return await self._do(self._store.fire, *self._store.texts.write(message), firing, until, missed)

    async def add_schedule(self, schedule: OwnSchedule, most: int) -> OwnSchedule | None:
        """Keep a schedule of the agent."""
        return await self._do(self._store.schedules.add, schedule, most)

    async def own_schedules(self) -> list[OwnSchedule]:
        """Return the schedules of the agent."""
        return await self._do(self._store.schedules.own)

    async def remove_schedule(self, name: str) -> bool:
        """Remove a schedule of the agent."""
        return await self._do(self._store.schedules.remove, name)

    async def pass_over(self, name: str, *, until: float, missed: int) -> None:
        """Note that every moment up to a time is decided."""
        await self._do(self._store.schedules.pass_over, name, until, missed)

    # The outbox.

    async def outgoing(self) -> list[Outgoing]:
        """The replies that wait for their delivery, in order. One that cannot be read is set aside."""
        return await self._do(self._store.outgoing)

    async def mark_delivered(self, id: int) -> None:  # noqa: A002
        """Take a reply out of the outbox."""
        await self._do(self._store.mark_delivered, id)

    async def put_off(self, id: int, *, not_before: float) -> None:  # noqa: A002
        """Count a delivery that failed; the next one is for a Unix time."""
        await self._do(self._store.put_off, id, not_before)

    async def undeliverable(self, id: int, reason: str) -> None:  # noqa: A002
        """Put a reply out of the way, and keep it for `bub inbox`."""
        await self._do(self._store.set_aside, "reply", [id], reason)

    async def keep_reply_draft(self, id: int, draft: str) -> None:  # noqa: A002 (as above)
        """Keep what the channel notes of a reply that it is sending."""
        await self._do(self._store.keep_reply_draft, id, draft)

    # What channels remember.

    def remember(self, channel: str, name: str, value: str) -> None:
        """Keep a note of a channel, in the transaction of whatever is kept next."""
        self._notes.pop((channel, name), None)  # the newest stand last
        self._notes[channel, name] = value

    async def recall(self, channel: str) -> dict[str, str]:
        """Return the notes of a channel by their names."""
        return await self._do(self._store.recall, channel)

    # What people do with what was set aside.

    async def list_entries(self) -> list[InboxEntry]:
        """List all messages of the workspace, then all replies, each in order."""
        return await self._do(self._store.list_entries)

    async def retry(self, kind: Kind, ids: Sequence[Id]) -> None:
        """Let dead letters wait again, as if nothing had been tried."""
        await self._do(self._store.retry, kind, ids)

    async def drop(self, kind: Kind, ids: Sequence[Id]) -> None:
        """Remove entries for good."""
        await self._do(self._store.drop, kind, ids)

    async def was_requeued(self) -> bool:
        """Whether `bub inbox` changed something of this workspace since this was last asked, or since the opening."""
        times, before = await self._do(self._store.times_requeued), self._times_requeued
        self._times_requeued = times
        return times != before

    def _check(self, token: Token | None) -> None:
        """Raise `FencedError` for a claim of an earlier opening, or of another mailbox."""
        if token is not None and token != self._token:
            raise FencedError("another process has claimed these messages since")

    # One transaction for all who ask at the same time.

    async def _do(self, work: Callable[..., _T], *given: Any) -> _T:
        if not self._is_open:
            raise MailboxError("the inbox is not open")
        return await self._ask(partial(work, *given))

    async def _ask(self, work: Callable[[], _T]) -> _T:
        if self._store.path is None:
            await trio.lowlevel.checkpoint()
            if self._notes:
                notes, self._notes = self._notes, {}
                self._store.alone(partial(self._store.remember, notes))
            return self._store.alone(work)
        await trio.lowlevel.checkpoint_if_cancelled()
        asked = _InboxRequest(work)
        self._asked.append(asked)
        with trio.move_on_after(GIVEN_UP) as scope:
            scope.shield = True
            if self._led:
                await asked.called.wait()
            if asked.came is _NOTHING_YET:
                await self._lead()
        if asked.came is _NOTHING_YET:
            if asked in self._asked:  # else whoever led it gives up in this same moment
                self._asked.remove(asked)
            if asked.called.is_set():
                self._hand_over()
            raise self._report_silence()
        if isinstance(asked.came, Exception):
            raise asked.came
        came: _T = asked.came
        return came

    async def _lead(self) -> None:
        """Do all that is asked by now; who asks meanwhile is next, and the first of them leads."""
        self._led = True
        together, self._asked = self._asked, []
        notes, self._notes = self._notes, {}
        works: list[Callable[[], Any]] = [asked.work for asked in together]
        if notes:
            works.insert(0, partial(self._store.remember, notes))
        is_noted = False
        try:
            all_came = await self._in_thread(self._store.together, works)
            is_noted = not isinstance(all_came[0], Exception)
            for asked, came in zip(together, all_came[-len(together) :], strict=True):
                asked.came = came
        finally:
            if not is_noted:
                self._notes = notes | self._notes
            for asked in together:
                if asked.came is _NOTHING_YET:
                    asked.came = self._report_silence()
                asked.called.set()
            self._hand_over()

    def _hand_over(self) -> None:
        """Let whoever has waited longest lead."""
        self._led = bool(self._asked)
        if self._asked:
            self._asked[0].called.set()

    async def _in_thread(self, work: Callable[..., _T], *given: Any) -> _T:
        if self._store.path is None:
            await trio.lowlevel.checkpoint()  # a virtual clock would jump while a thread is waited for
            return work(*given)
        # A disk that hangs keeps its thread, and with it the limiter, but nobody who waits.
        return await trio.to_thread.run_sync(partial(work, *given), limiter=self._limiter, abandon_on_cancel=True)

    def _open(self) -> None:
        path = self._store.path
        if path is not None:
            self._lock = lock_workspace(path, self._store.workspace)
        try:
            self._store.open()
            self._times_requeued = self._store.alone(self._store.times_requeued)
        except BaseException:  # what is half open would keep its lock
            self._close()
            raise

    def _close(self) -> None:
        self._store.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _report_silence(self) -> MailboxError:
        return MailboxError(
            f"the inbox {self._store.path} has not answered for {GIVEN_UP:g} seconds",
            help="see whether its disk can be reached",
        )
