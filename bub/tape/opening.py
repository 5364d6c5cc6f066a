"""Where Bub keeps its tapes, unless a plugin brings a store of its own.

This module alone knows which stores there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bub.tape.jsonl import JsonlTapeStore
from bub.tape.sqlite import SqliteTapeStore
from bub.tape.store import TapeStore


@contextmanager
def open_tape_store(home: Path, settings: Mapping[str, Any]) -> Iterator[TapeStore]:
    """The store that the setting `tapes.store` chooses, closed behind the block; nothing is opened before it is used.

    `home` is Bub's own folder. `sqlite`, the default, is one file there; `jsonl` is a file for each tape.
    """
    section = settings.get("tapes")
    chosen = section.get("store") if isinstance(section, Mapping) else None
    folder = home / "tapes"
    store = JsonlTapeStore(folder) if chosen == "jsonl" else SqliteTapeStore(folder / "tapes.db")
    try:
        yield store
    finally:
        store.close()


def archive_folder(home: Path) -> Path:
    """Where the copy of a tape goes that is reset."""
    return home / "tapes" / "archive"
