"""A firing of a schedule, and what a store knows of a schedule."""

from __future__ import annotations

from dataclasses import dataclass

from bub.base.surfaces import Surface


@dataclass(frozen=True, slots=True)
class Firing:
    """The moment `at`, a Unix time, of a schedule: it is claimed once, by the first process.

    `profile` takes the turn; if it is None, routes choose. `is_own` is whether the agent made the schedule.
    """

    schedule: str
    at: float
    profile: str | None = None
    is_own: bool = False

    @property
    def surface(self) -> Surface:
        """Who is behind the message: the file, or what a turn made up."""
        return Surface.PROGRAM if self.is_own else Surface.SCHEDULE


@dataclass(frozen=True, slots=True)
class Followed:
    """How far a schedule is: every moment up to the Unix time `since` is decided.

    `last` is the moment that fired last, None before the first one; `missed` counts those that did not.
    """

    name: str
    since: float
    last: float | None = None
    missed: int = 0
