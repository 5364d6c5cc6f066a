"""What this machine has to confine commands with."""

from __future__ import annotations


def find_lack() -> str:
    """Say in a clause why commands cannot be confined here; "" if they can."""
    return "this version of Bub has nothing to do it with"
