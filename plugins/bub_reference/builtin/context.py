"""How a tape becomes messages if a plugin does not choose."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bub.tape import TapeEntry as _TapeEntry
from bub.tape.context import messages_of
from bub_reference.tape import TapeContext, TapeEntry


def default_tape_context() -> TapeContext:
    """Choose messages as Bub does."""
    return TapeContext(select=_select)


def _select(entries: Iterable[TapeEntry], context: TapeContext) -> list[dict[str, Any]]:
    return messages_of([_TapeEntry(one.id, one.kind, one.payload, one.meta, one.date) for one in entries])
