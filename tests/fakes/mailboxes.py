"""Mailboxes that outlive their manager, are slow, or die with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

from bub.inbox.mailbox import Mailbox, MailboxError, Outgoing, Received


class Lasting(Mailbox):
    """A mailbox in memory that outlives its manager, as a file does."""

    def __init__(self, folder: Path) -> None:
        super().__init__(None, folder)
        self._was_open = False

    async def open(self) -> None:
        if not self._was_open:
            self._was_open = True
            await super().open()

    async def close(self) -> None:
        pass


class Slow(Mailbox):
    """A mailbox on a disk that takes a while to tell what it read; the file may have changed meanwhile."""

    looks = False

    async def was_requeued(self) -> bool:
        return self.looks

    async def waiting(self) -> list[Received]:
        found = await super().waiting()
        if self.looks:
            await trio.sleep(1)
        return found

    async def outgoing(self) -> list[Outgoing]:
        found = await super().outgoing()
        if self.looks:
            await trio.sleep(1)
        return found


class Mortal(Lasting):
    """Once it is dead, nothing reaches the disk any more: as where the process was killed."""

    is_dead = False

    async def _ask(self, work: Any) -> Any:
        await trio.lowlevel.checkpoint()
        if self.is_dead:
            raise MailboxError("there is nobody who could write")
        return await super()._ask(work)


async def slowly(prompt: str) -> str:
    await trio.sleep(1)
    return prompt


async def in_a_group(*errors: BaseException) -> None:
    """Fails as the tasks of a plugin do that are open when it ends."""

    async def fail(error: BaseException) -> None:
        raise error

    async with trio.open_nursery() as nursery:
        for error in errors:
            nursery.start_soon(fail, error)
