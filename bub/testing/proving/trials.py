"""The trials of a profile: each fault by itself, then those pairs that may tell more, each in a turn of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import combinations, product
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from bub.hooks.kinds.stream import CLOSING_PATIENCE
from bub.pipeline.plan.plan import Plan
from bub.testing.proving.answers import REPLIES
from bub.testing.proving.laws import Broken, judge
from bub.testing.proving.rules import Rules, is_unbounded, time_of
from bub.testing.proving.seen import Seen, Visit
from bub.testing.proving.settings import Setting, Settings
from bub.testing.proving.sites import REPORTING, Site, timeout_of
from bub.testing.proving.turns import Stage
from bub.testing.proving.ways import PAIRED, Fault, Way, faults_at

Pairs = Literal["guards", "all", "none"]
"""Which pairs of faults are tried: those with a gate, a clean-up or a policy among them, all, or none."""

_MOST_ITEMS = 3


class Trial(msgspec.Struct, frozen=True, eq=False):
    """One turn with its faults, what was seen of it, and the laws that it broke.

    `unbounded` is the stage, or fired point, that hung without anything that bounds it; "" if there is none.
    """

    faults: tuple[Fault, ...]
    setting: Setting
    seen: Seen
    broken: tuple[Broken, ...]
    unbounded: str = ""


class Trials:
    """Tries every fault at every site of one profile; `unreached` are the sites that no turn calls."""

    def __init__(self, stage: Stage, plan: Plan, sites: Sequence[Site], *, is_mocked: bool, pairs: Pairs) -> None:
        self.unreached: list[Site] = []
        self._stage, self._plan, self._sites = stage, plan, tuple(sites)
        self._is_mocked, self._pairs = is_mocked, pairs
        self._settings = Settings(stage, plan, sites, is_mocked=is_mocked)
        self._bound = bound_of(plan, sites)
        stage.director.long = self._bound + 100_000
        self._called: dict[int, set[int]] = {}
        self._found: dict[int, Setting] = {}

    def calls_of(self, site: Site) -> list[Visit]:
        """Return the calls of a site in a turn without a fault, once `run` is over."""
        setting = self._found.get(site.number)
        return setting.calm.visited(site) if setting is not None else []

    async def run(self) -> AsyncIterator[Trial]:
        """Run one trial after another."""
        settings = self._found
        for site in self._sites:
            setting = await self._settings.for_site(site)
            if setting is None:
                self.unreached.append(site)
                continue
            settings[site.number] = setting
        for setting in {id(one): one for one in settings.values()}.values():
            yield self._judge((), setting, setting.calm)
        singles = {site.number: list(faults_at(site)) for site in self._sites if site.number in settings}
        for number, faults in singles.items():
            for fault in faults:
                trial = await self._try((fault,), settings[number])
                self._called[id(fault)] = {visit.site.number for visit in trial.seen.visits}
                yield trial
                if fault.site.is_gate and fault.site.each is not None and fault.way is not Way.NOTHING:
                    yield await self._try((fault,), await self._settings.mocked(), item=REPLIES[0])
        if self._pairs != "none":
            for one, other in combinations([site for site in self._sites if site.number in settings], 2):
                if self._pairs == "all" or _is_telling(one) or _is_telling(other):
                    both = _common(settings[one.number], settings[other.number], one, other)
                    if both is not None:
                        for pair in self._worth_trying(singles[one.number], singles[other.number]):
                            yield await self._try(pair, both)

    def _worth_trying(self, ones: list[Fault], others: list[Fault]) -> Iterator[tuple[Fault, Fault]]:
        """Yield the pairs of which each fault lets the other one strike; all others are as one of the two alone."""
        for one, other in product(_paired(ones), _paired(others)):
            if other.site.number in self._called[id(one)] and one.site.number in self._called[id(other)]:
                yield one, other

    async def _try(self, faults: tuple[Fault, ...], setting: Setting, item: str | None = None) -> Trial:
        script = replace(setting.script, faults=faults, item=item)
        return self._judge(faults, setting, await self._stage.take(setting.message, script, known=setting.known))

    def _judge(self, faults: tuple[Fault, ...], setting: Setting, seen: Seen) -> Trial:
        is_mocked = setting.script.mocked is None
        rules = Rules(self._plan, self._sites, setting.calm, self._bound, is_mocked, setting.is_steady)
        unbounded = ""
        if is_unbounded(seen):
            hung = next(visit for visit in seen.visits if visit.outlasted and time_of(visit) is None)
            unbounded = hung.outermost.site.where
        return Trial(faults, setting, seen, tuple(judge(rules, seen)), unbounded)


def _is_telling(site: Site) -> bool:
    return site.is_gate or site.is_cleanup or site.has_policy


def _paired(faults: list[Fault]) -> list[Fault]:
    """The first fault of each way that is tried in pairs."""
    return [found for way in PAIRED if (found := next((one for one in faults if one.way is way), None)) is not None]


def _common(one: Setting, other: Setting, first: Site, second: Site) -> Setting | None:
    """Return a setting in which both sites are called."""
    return next((setting for setting in (other, one) if setting.calls(first) and setting.calls(second)), None)


def bound_of(plan: Plan, sites: Sequence[Site]) -> float:
    """Return how many seconds a turn may take: the sum of all its time-outs, and of the reports of errors meanwhile."""
    seconds = 0.0
    for stage in plan.stages:
        timeout = timeout_of(stage)
        if stage.enabled and timeout is not None:
            asked = sum(site.where == stage.id for site in sites)
            times: Any = asked if stage.cleanup_for is not None else _MOST_ITEMS if stage.each is not None else 1
            seconds += timeout * max(1, times) + CLOSING_PATIENCE
    observers = sum(site.is_error_observer for site in sites)
    return seconds + observers * REPORTING * (len(plan.stages) + 1)
