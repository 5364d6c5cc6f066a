"""What a trial of one package is, as data, and what came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.compat.world import World


@dataclass(frozen=True)
class Trial:
    """How one package is tried."""

    package: str
    """Its folder in bub-contrib."""

    plugin: str
    """Its entry point."""

    does: str
    """Its main function, which the turn shows."""

    against: str
    """What it was tried with; where an address had to be changed, how."""

    hooks: tuple[str, ...]
    """The hook points at which `bub hooks` has to show it."""

    turn: Callable[[World], Awaitable[None]]
    """Lets the main function work; raises AssertionError where it does not."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Its section."""

    answers: Mapping[str, Any] | None = None
    """What `bub onboard PLUGIN --answers` is given, for a package that asks something."""

    asked: tuple[str, ...] = ()
    """The settings that its section has to have then."""

    beside: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Other packages of the collection that the turn needs, with their settings."""

    needs: tuple[str, ...] = ()
    """Requirements beside its own, as the lock of bub-contrib has them."""

    known: str = ""
    """Why it cannot work, if that is known."""


@dataclass(frozen=True)
class Outcome:
    """What came of a trial: for each step `ok`, or the reason why not."""

    trial: Trial
    steps: Mapping[str, str]
    seconds: float

    @property
    def works(self) -> bool:
        return all(said == "ok" for said in self.steps.values())
