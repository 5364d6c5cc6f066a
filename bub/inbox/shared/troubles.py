"""What a turn fails with if it is not to blame: its store is away, or somebody else has its messages by now."""

from __future__ import annotations

from typing import Literal

from bub.inbox.store import FencedError
from bub.tape.store import FencedTapeError

Trouble = Literal["fenced", "away"]


def trouble_of(error: BaseException) -> Trouble | None:
    """Return what is wrong with the store, if an error comes from there."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, FencedError | FencedTapeError):
            return "fenced"
        if getattr(seen, "is_away", False):
            return "away"
        seen = seen.__cause__
    return None
