"""What `bub inbox` and `bub schedules` ask of an inbox that gateways share: each question is a connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import trio

from bub.base.redis.address import StoreAddress
from bub.channels.message import ChannelMessage
from bub.inbox.questions import AskedQuestion
from bub.inbox.schedules.firing import Firing, Followed
from bub.inbox.schedules.own import OwnSchedule
from bub.inbox.shared.opening import shared_inbox
from bub.inbox.store import Id, InboxEntry, Kind

_T = TypeVar("_T")


class SharedDesk:
    """Answers as a `SqliteInbox` does to who looks through what was set aside, or what fires. Raises `MailboxError`."""

    def __init__(self, address: StoreAddress, workspace: Path) -> None:
        self.workspace = str(workspace)
        self.questions = self
        """Where questions are: here."""
        self.schedules = SharedSchedules(self._ask)
        self._make: Callable[[], Any] = lambda: shared_inbox(address, workspace)

    def alone(self, work: Callable[[], _T]) -> _T:
        """Do some work, as a transaction of a file would."""
        return work()

    def list_entries(self) -> list[InboxEntry]:
        """List all messages of the agent, then all replies, each in order."""
        return self._ask(lambda inbox: inbox.list_entries())

    def retry(self, kind: Kind, ids: Sequence[Id]) -> None:
        """Let dead letters wait again, as if nothing had been tried."""
        self._ask(lambda inbox: inbox.retry(kind, ids))

    def drop(self, kind: Kind, ids: Sequence[Id]) -> None:
        """Remove dead letters for good."""
        self._ask(lambda inbox: inbox.drop(kind, ids))

    def count_dead_letters_elsewhere(self) -> dict[str, int]:
        """Nothing: what other agents have there is theirs."""
        return {}

    def open(self) -> list[AskedQuestion]:
        """Return the questions that nobody has answered yet, the oldest first."""
        found: list[AskedQuestion] = self._ask(lambda inbox: inbox.open_questions())
        return found

    def answer(self, name: str, is_yes: bool, by: str) -> bool:
        """Keep what a person said to an open question; says whether it was open."""
        return bool(self._ask(lambda inbox: inbox.answer(name, is_yes, by)))

    def fire_now(self, message: ChannelMessage, firing: Firing) -> None:
        """Keep the message of a schedule that a person wants to fire beside its own times."""
        self._ask(lambda inbox: inbox.fire(firing, message, until=None, missed=0))

    def _ask(self, work: Callable[[Any], Awaitable[_T]]) -> _T:
        async def ask() -> _T:
            inbox = self._make()
            await inbox.open()
            try:
                return await work(inbox)
            finally:
                await inbox.close()

        return trio.run(ask)


class SharedSchedules:
    """What is known of schedules, asked as a file is."""

    def __init__(self, ask: Callable[[Callable[[Any], Awaitable[Any]]], Any]) -> None:
        self._ask = ask

    def followed_so_far(self) -> list[Followed]:
        """Return how far each schedule is."""
        found: list[Followed] = self._ask(lambda inbox: inbox.followed())
        return found

    def own(self) -> list[OwnSchedule]:
        """Return the schedules of the agent."""
        found: list[OwnSchedule] = self._ask(lambda inbox: inbox.own_schedules())
        return found

    def remove(self, name: str) -> bool:
        """Remove a schedule of the agent; False if there is none of that name."""
        return bool(self._ask(lambda inbox: inbox.remove_schedule(name)))
