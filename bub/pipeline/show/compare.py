"""What changes in behaviour between two pipelines: what would run is compared, not how it is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from bub.base.diagnostics import Diagnostic, PipelineError, did_you_mean, sort_diagnostics
from bub.errors import UsageError
from bub.pipeline.check.validate import check_document, profiles_of
from bub.pipeline.plan.plan import Plan, make_plan
from bub.pipeline.show.differences import (
    agents,
    confinement,
    guests,
    hooks,
    limits,
    order,
    routes,
    schedules,
    settings,
    stages,
    tools,
    ways,
)
from bub.pipeline.show.differences.changes import Change, Changes, list_names
from bub.pipeline.show.differences.code import lock, plugins, servers
from bub.pipeline.show.differences.messages import route_samples
from bub.pipeline.show.pairs import Named, Pair, pair_profiles
from bub.pipeline.show.profiles import profiles_named
from bub.pipeline.source.merge import Document
from bub.pipeline.source.referred import read_default
from bub.secrets.within import hide_within

_PARTS = (
    plugins.compare,
    servers.compare,
    lock.compare,
    tools.compare,
    confinement.compare,
    stages.compare,
    order.compare,
    hooks.compare,
    settings.compare,
    guests.compare,
    limits.compare,
    schedules.compare,
    agents.compare,
)

_STRENGTH = frozenset({"gates", "tools", "limits", "settings.reach"})
"""The changes that tell that a profile may do more than another one: an area, or a kind."""


@dataclass(frozen=True, slots=True)
class ProfileComparison:
    """What changes from profile `old` of one side to profile `new` of the other; it is about the profile `name`.

    `new` is None for a profile that is gone, if none of its messages gets another one now.
    """

    name: str
    old: str
    new: str | None
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changes from one document to another: in each profile, and in who gets which profile.

    `mistakes` are the errors of both: what they keep from being read is not compared.
    """

    profiles: tuple[ProfileComparison, ...]
    routes: tuple[Change, ...]
    mistakes: tuple[Diagnostic, ...] = ()

    @property
    def changes(self) -> tuple[Change, ...]:
        return (*(change for compared in self.profiles for change in compared.changes), *self.routes)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object of `bub diff --format json`, the dangerous changes first."""
        told: list[tuple[Change, str | None]] = [(change, None) for change in self.routes]
        told += [(change, compared.name) for compared in self.profiles for change in compared.changes]
        told.sort(key=lambda item: item[0].rank)
        return {
            "version": 1,
            "errors": len(self.mistakes),
            "differs": bool(told),
            "changes": [change.as_dict(profile) for change, profile in told],
        }


def compare(old: Document, new: Document, profiles: tuple[str, str] | None = None) -> Comparison:
    """Find what changes in behaviour from `old` to `new`: in one profile of each, or in all that they have.

    A profile that only one side has is compared with the one that its messages get on the other. Nothing is imported
    and no reference is looked up. A side with mistakes is compared as far as it can be read. Raises `PipelineError`
    with the findings of both sides if one cannot be read at all, and `UsageError` for a profile that is not there.
    """
    for document, profile in zip((old, new), profiles or (), strict=False):
        _check_profile_exists(document, profile)
    return _Comparer(old, new).compare(profiles)


class _Comparer:
    """Compares profiles of two documents; each profile is planned once."""

    def __init__(self, old: Document, new: Document) -> None:
        self.old, self.new = old, new
        self._made: dict[tuple[int, str], Plan] = {}

    def plan(self, document: Document, profile: str) -> Plan:
        key = id(document), profile
        if key not in self._made:
            self._made[key] = make_plan(document, profile)
        return self._made[key]

    def compare(self, profiles: tuple[str, str] | None) -> Comparison:
        if profiles is not None:
            pairs, samples = [Pair(profiles[1], *profiles)], []
        else:
            samples = route_samples(self.old, self.new)
            named = self._find_named(self.old), self._find_named(self.new)
            pairs = pair_profiles(profiles_of(self.old), profiles_of(self.new), samples, named, self._are_same)
        mistakes = self._find_mistakes(pairs)
        compared = [self._compare_pair(pair) for pair in pairs]
        routed = Changes()
        if profiles is None:
            routes.compare(self.old, self.new, samples, cache(self._stronger), routed)
        return Comparison(tuple(compared), routed.sort(), mistakes)

    def _find_mistakes(self, pairs: Iterable[Pair]) -> tuple[Diagnostic, ...]:
        """Return the errors of both sides. Raises `PipelineError` if there is one that keeps a side from being read."""
        found = [finding for document in (self.old, self.new) for finding in check_document(document)]
        # The profiles do not report once more what a missing parent lacks.
        plans = [plan for pair in pairs for plan in self._plans(pair) if plan.document.complete]
        found += [finding for plan in plans for finding in plan.findings.items]
        errors = sort_diagnostics(finding for finding in found if finding.severity == "error")
        if errors and not (self.old.complete and self.new.complete):
            raise PipelineError(found)
        return errors

    def _plans(self, pair: Pair) -> tuple[Plan, ...]:
        return self.plan(self.old, pair.old), *([self.plan(self.new, pair.new)] if pair.new is not None else [])

    def _compare_pair(self, pair: Pair) -> ProfileComparison:
        changes = Changes()
        self._report_unpaired(pair, changes)
        if pair.new is not None:
            before, after = self.plan(self.old, pair.old), self.plan(self.new, pair.new)
            self._compare_plans(before, after, changes)
            ways.compare(before, after, changes)  # routes make them, too, which are no part of a profile
        found = changes.sort()
        if not pair.is_reached:
            found = Changes([_without_danger(change) for change in found]).sort()
        # A name may be an address with a password, or have the default of a variable in it.
        name, old, new = (hide_within(one) if one is not None else None for one in (pair.name, pair.old, pair.new))
        return ProfileComparison(name or "", old or "", new, found)

    def _compare_plans(self, before: Plan, after: Plan, changes: Changes) -> None:
        for part in _PARTS:
            part(before, after, changes)

    def _report_unpaired(self, pair: Pair, changes: Changes) -> None:
        """Tell that only one side has a profile, or that it is called otherwise there."""
        if all(pair.name in profiles_of(document) for document in (self.old, self.new)):
            return
        path = f"profiles.{pair.name}"
        come, gone = (document.root.get("profiles", pair.name) for document in (self.new, self.old))
        if pair.is_renamed:
            changes.add("profiles.renamed", f"profile `{pair.old}` is called `{pair.new}`", path, come, new=pair.new)
        elif pair.name == pair.new:
            message = f"profile `{pair.name}` is new; its messages got `{pair.old}` before"
            for one in pair.perhaps:
                message += f"; perhaps it gets {one.words}, because Bub does not know the value of `{one.unknown}`"
            changes.add("profiles.added", message, path, come, new=pair.name)
        else:
            message = f"profile `{pair.name}` is gone; {_whose_messages(pair)}"
            changes.add("profiles.removed", message, path, gone, old=pair.name)

    def _are_same(self, old: str, new: str) -> bool:
        changes = Changes()
        self._compare_plans(self.plan(self.old, old), self.plan(self.new, new), changes)
        return not changes.items

    def _stronger(self, old: str, new: str) -> str:
        """Return what messages may do with the profile `new` that they may not with `old`; "" if nothing."""
        side = self.new if old in profiles_of(self.new) else self.old
        if new not in profiles_of(self.new):
            return ""
        changes = Changes()
        self._compare_plans(self.plan(side, old), self.plan(self.new, new), changes)
        more = [change for change in changes.sort() if change.is_danger and {change.area, change.kind} & _STRENGTH]
        others = f", and {len(more) - 1} more" if len(more) > 1 else ""
        return f"{more[0].message}{others}" if more else ""

    def _find_named(self, document: Document) -> Iterator[Named]:
        """Yield what something beside routes names, with each profile that Bub could start with before the change."""
        plans = {name: self.plan(document, name) for name in profiles_of(document)}
        for start in plans:
            if start in profiles_of(self.old):
                yield from profiles_named(plans, start, read_default)


def _whose_messages(pair: Pair) -> str:
    """Tell of a profile that is gone what its messages get now, else which ones it got before."""
    if pair.new is not None:
        return f"its messages get `{pair.new}` now"
    sure = dict.fromkeys(one.words for one in pair.got if one.unknown is None)
    doubts = [f"{one.words}, because Bub does not know the value of `{one.unknown}`" for one in pair.got if one.unknown]
    told = [f"it got {' and '.join(sure)} before"] if sure else []
    return "; ".join([*told, *(f"perhaps it got {doubt}" for doubt in doubts)]) or "no message got it by itself"


def _without_danger(change: Change) -> Change:
    """Return what is told of a profile that no message gets by itself; its code is imported by whoever checks it."""
    return change if change.area == "code" else replace(change, severity="notice")


def _check_profile_exists(document: Document, profile: str) -> None:
    known = profiles_of(document)
    if profile not in known and document.complete:
        hint = did_you_mean(profile, known) or f"it has {list_names(known)}"
        raise UsageError(f"{document.file} has no profile `{profile}`", help=hint)
