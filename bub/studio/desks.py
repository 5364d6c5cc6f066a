"""The desk of questions that wait and of what was set aside: the inbox of this process, or of a gateway beside it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol, TypeVar

import trio

from bub.approval import OPERATOR
from bub.base.redis.address import StoreAddress
from bub.channels.channel import TakenAnswer
from bub.inbox.approvals import describe_outcome
from bub.inbox.file import inbox_file
from bub.inbox.manager import ChannelManager
from bub.inbox.questions import OPEN, AskedQuestion
from bub.inbox.shared.opening import shared_inbox
from bub.inbox.sqlite import SqliteInbox
from bub.inbox.store import Id, InboxEntry, InboxStore, Kind

_T = TypeVar("_T")


class Desk(Protocol):
    """What the page does with an inbox. Everything raises `MailboxError` if that cannot be used."""

    async def questions(self) -> list[AskedQuestion]:
        """Give the questions that nobody has answered yet, the oldest first."""

    async def answer(self, name: str, is_yes: bool) -> TakenAnswer:
        """Take the operator's answer to a question."""

    async def entries(self) -> list[InboxEntry]:
        """Give all messages and replies, those that were set aside included."""

    async def retry(self, kind: Kind, ids: Sequence[Id]) -> None:
        """Let what was set aside wait again."""

    async def drop(self, kind: Kind, ids: Sequence[Id]) -> None:
        """Remove what was set aside for good."""


class OwnDesk:
    """The inbox that the channels of this process work on."""

    def __init__(self, manager: ChannelManager, store: InboxStore) -> None:
        self._manager = manager
        self._store = store

    async def questions(self) -> list[AskedQuestion]:
        """Give the questions that nobody has answered yet."""
        return await self._store.open_questions()

    async def answer(self, name: str, is_yes: bool) -> TakenAnswer:
        """Take the operator's answer; who waits for it here goes on at once."""
        return await self._manager.answer_as_operator(name, is_yes)

    async def entries(self) -> list[InboxEntry]:
        """Give all messages and replies."""
        return await self._store.list_entries()

    async def retry(self, kind: Kind, ids: Sequence[Id]) -> None:
        """Let what was set aside wait again."""
        await self._store.retry(kind, ids)

    async def drop(self, kind: Kind, ids: Sequence[Id]) -> None:
        """Remove what was set aside for good."""
        await self._store.drop(kind, ids)


class FileDesk:
    """The inbox of a workspace on this machine, which a gateway may be working on; it is made by nobody here."""

    def __init__(self, home: Path, workspace: Path) -> None:
        self._path = inbox_file(home)
        self._workspace = workspace

    async def questions(self) -> list[AskedQuestion]:
        """Give the questions that nobody has answered yet."""
        return await self._ask(lambda inbox: inbox.questions.open(), [])

    async def answer(self, name: str, is_yes: bool) -> TakenAnswer:
        """Take the operator's answer; a gateway finds it within seconds."""
        return await self._ask(lambda inbox: _answer_in_file(inbox, name, is_yes), _describe(name, None))

    async def entries(self) -> list[InboxEntry]:
        """Give all messages and replies."""
        return await self._ask(lambda inbox: inbox.list_entries(), [])

    async def retry(self, kind: Kind, ids: Sequence[Id]) -> None:
        """Let what was set aside wait again."""
        await self._ask(lambda inbox: inbox.retry(kind, ids), None)

    async def drop(self, kind: Kind, ids: Sequence[Id]) -> None:
        """Remove what was set aside for good."""
        await self._ask(lambda inbox: inbox.drop(kind, ids), None)

    async def _ask(self, work: Callable[[SqliteInbox], _T], usual: _T) -> _T:
        return await trio.to_thread.run_sync(self._ask_now, work, usual)

    def _ask_now(self, work: Callable[[SqliteInbox], _T], usual: _T) -> _T:
        if not self._path.exists():
            return usual
        inbox = SqliteInbox(self._path, self._workspace)
        inbox.open()
        try:
            return inbox.alone(lambda: work(inbox))
        finally:
            inbox.close()


class StoreDesk:
    """The inbox that gateways elsewhere share: each question is a connection."""

    def __init__(self, address: StoreAddress, workspace: Path) -> None:
        self._address = address
        self._workspace = workspace

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[InboxStore]:
        inbox = shared_inbox(self._address, self._workspace)
        await inbox.open()
        try:
            yield inbox
        finally:
            await inbox.close()

    async def questions(self) -> list[AskedQuestion]:
        """Give the questions that nobody has answered yet."""
        async with self._opened() as inbox:
            return await inbox.open_questions()

    async def answer(self, name: str, is_yes: bool) -> TakenAnswer:
        """Take the operator's answer; a gateway finds it within seconds."""
        async with self._opened() as inbox:
            kept = await inbox.find_question(name)
            if kept is None or not _is_open(kept):
                return _describe(name, kept)
            counts = await inbox.answer(name, is_yes, OPERATOR)
            return _describe(name, await inbox.find_question(name), counts=counts)

    async def entries(self) -> list[InboxEntry]:
        """Give all messages and replies."""
        async with self._opened() as inbox:
            return await inbox.list_entries()

    async def retry(self, kind: Kind, ids: Sequence[Id]) -> None:
        """Let what was set aside wait again."""
        async with self._opened() as inbox:
            await inbox.retry(kind, ids)

    async def drop(self, kind: Kind, ids: Sequence[Id]) -> None:
        """Remove what was set aside for good."""
        async with self._opened() as inbox:
            await inbox.drop(kind, ids)


def _answer_in_file(inbox: SqliteInbox, name: str, is_yes: bool) -> TakenAnswer:
    kept = inbox.questions.find(name)
    if kept is None or not _is_open(kept):
        return _describe(name, kept)
    counts = inbox.questions.answer(name, is_yes, OPERATOR)
    return _describe(name, inbox.questions.find(name), counts=counts)


def _is_open(kept: AskedQuestion) -> bool:
    return kept.state == OPEN and kept.approval.until > time.time()


def _describe(name: str, kept: AskedQuestion | None, *, counts: bool = False) -> TakenAnswer:
    if kept is None:
        return TakenAnswer(f"There is no question {name} any more: the call that asked it has ended.", True)
    return TakenAnswer(describe_outcome(kept), True, counts)
