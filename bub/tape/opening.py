"""The place of Bub's tapes, unless a plugin brings a store of its own.

This module alone knows which stores there are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from bub.base.identity.agents import memory_of
from bub.base.installing.extras import install_command
from bub.base.redis.settings import agent_of, store_address
from bub.errors import TapeError
from bub.tape.copying.files import FileTapes
from bub.tape.copying.mark import check_whole
from bub.tape.jsonl import JsonlTapeStore
from bub.tape.shared import late
from bub.tape.sqlite import SqliteTapeStore
from bub.tape.store import AsyncTapeStore, TapeStore
from bub.tape.tape import prefix_of

TapeStoreManager: TypeAlias = AbstractContextManager[TapeStore] | AbstractAsyncContextManager[AsyncTapeStore]


def open_tapes(home: Path, workspace: Path, settings: Mapping[str, Any]) -> TapeStoreManager:
    """The store of an agent's tapes, opened for as long as the block: what several gateways share, or a file.

    Nothing is opened before it is used. Raises BubError for an address that is none, a client that is
    missing, and half a copy.
    """
    address = store_address(settings)
    if address is None:
        check_whole(home, memory_of(workspace, os.environ))
        return open_tape_store(home, settings)
    try:
        opened: AbstractAsyncContextManager[AsyncTapeStore] = late.open_redis_tapes(address, agent_of(workspace))
    except ImportError as error:
        remedy = f"run `{install_command('redis')}`"
        raise TapeError(f"{address.shown} needs the package coredis", help=remedy, reason="unavailable") from error
    return opened


def side_of_files(home: Path, memory: str, settings: Mapping[str, Any]) -> FileTapes:
    """Return the tapes of a memory (`memory_of`) in a folder such as Bub's own, for a copy; nothing is opened yet."""
    return FileTapes(_store_in(home, settings), prefix_of(memory))


@contextmanager
def open_tape_store(home: Path, settings: Mapping[str, Any]) -> Iterator[TapeStore]:
    """The store in Bub's own folder that `tapes.store` chooses, closed behind the block; it is opened when it is used.

    `home` is Bub's own folder. `sqlite`, the default, is one file there; `jsonl` is a file for each tape.
    """
    store = _store_in(home, settings)
    try:
        yield store
    finally:
        store.close()


def _store_in(home: Path, settings: Mapping[str, Any]) -> SqliteTapeStore | JsonlTapeStore:
    section = settings.get("tapes")
    chosen = section.get("store") if isinstance(section, Mapping) else None
    folder = home / "tapes"
    return JsonlTapeStore(folder) if chosen == "jsonl" else SqliteTapeStore(folder / "tapes.db")


def archive_folder(home: Path) -> Path:
    """Return the folder for the copy of a tape that is reset."""
    return home / "tapes" / "archive"
