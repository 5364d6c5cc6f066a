"""Tapes: the append-only record of each session, and what is asked of it."""

from __future__ import annotations

from bub.base.other_bub import explain_import

# The other Bub has a module of this name, so what it imports, once it was written over Bub, is this package first.
try:
    from bub.tape.context import TapeContext
    from bub.tape.entry import TapeEntry
    from bub.tape.query import LAST_ANCHOR, TapeQuery
    from bub.tape.store import AsyncTapeStore, TapeStore
    from bub.tape.tape import Tape
except ImportError as error:
    raise explain_import(error) from None

__all__ = ["LAST_ANCHOR", "AsyncTapeStore", "Tape", "TapeContext", "TapeEntry", "TapeQuery", "TapeStore"]
