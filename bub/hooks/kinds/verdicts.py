"""What a gate says against what follows."""

from __future__ import annotations

import msgspec

BROKEN_GATE = "This could not be checked, so it was not done."
"""What a person reads when a gate itself broke; the detail is in the log."""


class Denial(msgspec.Struct, frozen=True):
    """Why a gate did not allow: the reason for the person, who said so, and whether the gate itself broke."""

    reason: str
    plugin: str
    broken: bool = False
