"""Tapes: the append-only record of each session, and what is asked of it."""

from __future__ import annotations

from bub.tape.context import TapeContext
from bub.tape.entry import TapeEntry
from bub.tape.query import LAST_ANCHOR, TapeQuery
from bub.tape.store import AsyncTapeStore, TapeStore
from bub.tape.tape import Tape

__all__ = ["LAST_ANCHOR", "AsyncTapeStore", "Tape", "TapeContext", "TapeEntry", "TapeQuery", "TapeStore"]
