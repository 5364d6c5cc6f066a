"""The two ends of a copy: what it asks of a store, and Bub's own folder as one."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from bub.inbox.copying.records import InboxRecord, without_move
from bub.inbox.copying.sqlite_records import FileInbox
from bub.inbox.file import inbox_file, lock_workspace
from bub.tape.copying.mark import Mark, mark_file, read_mark, remove_mark, write_mark
from bub.tape.copying.records import TapeSide
from bub.tape.opening import side_of_files


class Side(Protocol):
    """What one agent has in a store, for a copy from there or to there.

    Everything raises `BubError` if the store cannot be used.
    """

    @property
    def name(self) -> str:
        """What the store and the agent are called, the same each time: two sides of one name are the same."""

    @property
    def shown(self) -> str:
        """The store for people, without a password."""

    @property
    def memory(self) -> str:
        """Whose memory is meant (`memory_of`)."""

    @property
    def tapes(self) -> TapeSide:
        """The tapes there."""

    def opened(self, *, is_target: bool) -> AbstractAsyncContextManager[None]:
        """Open the store for as long as the block; it keeps others from it, as far as it can."""

    async def find_workers(self) -> Sequence[str]:
        """Return the gateways that run on the store."""

    async def read_mark(self) -> Mark | None:
        """Return the mark of a half copy."""

    async def write_mark(self, mark: Mark) -> None:
        """Mark the store: no gateway begins on it, and no other copy writes to it from now on."""

    async def remove_mark(self) -> None:
        """Say that the copy is whole."""

    def as_kept(self, record: InboxRecord) -> InboxRecord:
        """Return what the store can keep of a record."""

    def read(self) -> AsyncIterator[InboxRecord]:
        """Give everything that the inbox has."""

    async def write(self, records: AsyncIterator[InboxRecord]) -> None:
        """Put records in place of everything that the inbox has."""


class FileSide:
    """What an agent with a certain memory has in a folder such as Bub's own (`Side`).

    `settings` say how its tapes lie there.
    """

    def __init__(self, home: Path, memory: str, settings: Mapping[str, Any]) -> None:
        self._home = Path(os.path.realpath(home))
        self.memory = memory
        self.name = f"{socket.gethostname()}:{self._home} {memory}"
        self.shown = str(home)
        self.tapes = side_of_files(self._home, memory, settings)
        self._inbox = FileInbox(None, memory)

    @asynccontextmanager
    async def opened(self, *, is_target: bool) -> AsyncIterator[None]:
        """Open the files, which are made only if something is to be written; a gateway there is an error."""
        path = inbox_file(self._home)
        with ExitStack() as held:
            held.callback(self.tapes.close)
            if is_target or path.parent.exists():
                held.enter_context(lock_workspace(path, self.memory))
            self._inbox = FileInbox(path if is_target or path.exists() else None, self.memory)
            self._inbox.open()
            held.callback(self._inbox.close)
            yield

    async def find_workers(self) -> Sequence[str]:
        """Return nobody: who opens the files has locked every gateway out."""
        return []

    async def read_mark(self) -> Mark | None:
        """Return the mark of a half copy."""
        return read_mark(mark_file(self._home, self.memory))

    async def write_mark(self, mark: Mark) -> None:
        """Mark the folder."""
        write_mark(mark_file(self._home, self.memory), mark)

    async def remove_mark(self) -> None:
        """Say that the copy is whole."""
        remove_mark(mark_file(self._home, self.memory))

    def as_kept(self, record: InboxRecord) -> InboxRecord:
        """Return a record without how far its turn has come: in a file, it begins at its first stage again."""
        return without_move(record)

    async def read(self) -> AsyncIterator[InboxRecord]:
        """Give everything that the inbox has."""
        for record in self._inbox.read():
            yield record

    async def write(self, records: AsyncIterator[InboxRecord]) -> None:
        """Put records in place of everything that the inbox has."""
        await self._inbox.write(records)
