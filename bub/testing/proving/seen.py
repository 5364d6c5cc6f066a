"""What was seen of one turn: who was called with what, what was shown, and how it ended."""

from __future__ import annotations

from typing import Any

import msgspec

from bub.framework import TurnResult
from bub.testing.proving.sites import Site
from bub.testing.proving.ways import Fault, Way


class Visit(msgspec.Struct, eq=False):
    """One call of a site: when it began and ended on the virtual clock, and how: "returned", "raised", "cancelled".

    `fault` is what was planted there, `inside` the visit that fired the point; if it `outlasted` all, it hung for good.
    """

    site: Site
    began: float
    arguments: dict[str, Any]
    message: Any = None
    fault: Fault | None = None
    inside: Visit | None = None
    ended: float | None = None
    how: str = ""
    outlasted: bool = False

    @property
    def outermost(self) -> Visit:
        """The call of a stage in which this one happened."""
        visit = self
        while visit.inside is not None:
            visit = visit.inside
        return visit


class Fired(msgspec.Struct, frozen=True, eq=False):
    """What came of firing a point: what the caller got, or None if that was an exception; `visits` were called."""

    name: str
    result: Any
    raised: bool
    first: int
    last: int


class Seen(msgspec.Struct, eq=False):
    """All that was seen of one turn; `faults` were planted. `told` is what the error observers got."""

    faults: tuple[Fault, ...] = ()
    visits: list[Visit] = msgspec.field(default_factory=list)
    fired: list[Fired] = msgspec.field(default_factory=list)
    shown: list[str] = msgspec.field(default_factory=list)
    told: list[tuple[str, Exception]] = msgspec.field(default_factory=list)
    result: TurnResult = msgspec.field(default_factory=TurnResult)
    error: BaseException | None = None
    took: float = 0.0
    real: float = 0.0
    chat: str = ""

    @property
    def struck(self) -> list[Visit]:
        """The calls in which a planted fault struck."""
        return [visit for visit in self.visits if visit.fault is not None]

    @property
    def is_cancelled(self) -> bool:
        return any(visit.fault is not None and visit.fault.way is Way.CANCEL for visit in self.visits)

    @property
    def ended_by(self) -> str | None:
        return self.result.ended_by

    def visited(self, site: Site) -> list[Visit]:
        return [visit for visit in self.visits if visit.site is site]

    def after(self, visit: Visit) -> list[Visit]:
        """The calls that began after one."""
        return self.visits[self.visits.index(visit) + 1 :]
