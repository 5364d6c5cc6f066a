"""The way to a value in a file, and the mark of a value that is to be taken out."""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeAlias

Keys: TypeAlias = tuple[str, ...]
"""The way to a value: the keys above it, and its own; an item of a list goes by its number, from "0" on."""


class Removed(Enum):
    """What stands for a value that is to be taken out."""

    REMOVED = "removed"


REMOVED: Final = Removed.REMOVED
