"""Admission: what becomes of a message while its session is being answered, and how a turn gets it."""

from __future__ import annotations

from typing import Protocol

import msgspec

from bub.envelope import Envelope

ACTIONS = ("process", "drop", "follow_up", "steer")
"""What can become of a message (BEHAVIOURS C18)."""


class Admission(msgspec.Struct, frozen=True):
    """How busy a session is when a message comes for it (BEHAVIOURS C18).

    `running_count` is the number of its turns under way, `pending_count` how many messages wait for one, and
    `steering_count` how many the turn under way was given and has not taken yet.
    """

    is_running: bool = False
    running_count: int = 0
    pending_count: int = 0
    steering_count: int = 0


class Steering(Protocol):
    """What comes for a turn while it runs (BEHAVIOURS C18, T7)."""

    def take(self) -> list[Envelope]:
        """Take all messages that have come since the last time, oldest first; the caller has to answer them."""
