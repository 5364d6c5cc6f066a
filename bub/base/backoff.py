"""How long to wait before something that failed is tried again."""

from __future__ import annotations

import math
import random

import msgspec

__all__ = ["Backoff"]

_MOST_DOUBLINGS = 64


class Backoff(msgspec.Struct, frozen=True):
    """Pauses that double: `first` seconds after one failure, never more than `longest`.

    `spread` is the share of a pause that chance may take away, from 0 to 1, so that those who failed together do not
    come back together.
    """

    first: float
    longest: float = math.inf
    spread: float = 0.0

    def pause_after(self, failures: int) -> float:
        """Return the seconds to wait after this many failures in a row, the first of which is 1."""
        pause = min(self.longest, self.first * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))
        return pause * random.uniform(1.0 - self.spread, 1.0) if self.spread else pause
