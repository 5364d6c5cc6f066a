"""How long an island is waited for."""

from __future__ import annotations

import msgspec


class Patience(msgspec.Struct, frozen=True):
    """Bounds in real seconds, for what does not end when it is asked to.

    A loop that has not answered for `blocked` counts as blocked; what is `cancelled` is left to itself after that time,
    and so is, at the end of a loop, what has not ended after `ending`.
    """

    blocked: float = 5.0
    cancelled: float = 5.0
    ending: float = 5.0
