"""What the laws hold a turn against, and what more than one of them asks of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from bub.pipeline.plan.plan import Plan
from bub.testing.proving.seen import Seen, Visit
from bub.testing.proving.sites import OBSERVING, Site


class Rules(msgspec.Struct, frozen=True, eq=False):
    """What the laws know beside a turn: the plan of the profile, its sites, and a turn without any fault.

    `is_mocked` says that no real implementation was called. `bound` is how long a turn may take in all, and
    `is_steady` whether the replies of two turns without a fault are the same.
    """

    plan: Plan
    sites: tuple[Site, ...]
    calm: Seen
    bound: float
    is_mocked: bool
    is_steady: bool = True

    def at(self, stage: str) -> list[Site]:
        """The sites of one stage, in the order they are asked."""
        return [site for site in self.sites if site.where == stage and site.stage is not None]


Check = Callable[[Rules, Seen], Iterator[tuple[str, str]]]
"""Yields what is wrong with a turn, each with the stage that it is about."""


def time_of(visit: Visit) -> float | None:
    """How long a call may take: as long as its point or any stage around it says; None if none does."""
    times = [visit.site.timeout] if visit.site.timeout is not None else []
    inside = visit.inside
    while inside is not None:
        if inside.site.timeout is not None:
            times.append(inside.site.timeout)
        inside = inside.inside
    return min(times, default=None)


def is_unbounded(seen: Seen) -> bool:
    """Whether something hung that nothing bounds."""
    return any(visit.outlasted and time_of(visit) is None for visit in seen.visits)


def replies_of(seen: Seen) -> str:
    """The replies of a turn, and what was handed to whoever delivers them, whatever the chat is called."""
    handed = [one.message for one in seen.visits if one.site.delivers and one.site.kind not in OBSERVING]
    return repr((seen.result.outbounds, handed)).replace(seen.chat, "CHAT")
