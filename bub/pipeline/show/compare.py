"""What changes in behaviour between two pipelines: what would run is compared, not how it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from bub.base.diagnostics import PipelineError, did_you_mean
from bub.errors import UsageError
from bub.pipeline.check.validate import check_document, profiles_of
from bub.pipeline.plan.plan import make_plan
from bub.pipeline.show.differences import hooks, order, plugins, routes, settings, stages, tools
from bub.pipeline.show.differences.changes import Change, Changes, list_names
from bub.pipeline.source.merge import DEFAULT_PROFILE, Document

_PARTS = (
    plugins.compare,
    tools.compare,
    stages.compare,
    order.compare,
    hooks.compare,
    settings.compare,
    settings.compare_limits,
)


@dataclass(frozen=True, slots=True)
class ProfileComparison:
    """What changes from profile `old` of one side to profile `new` of the other; it is about the profile `name`."""

    name: str
    old: str
    new: str
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changes from one document to another: in each profile, and in who gets which profile."""

    profiles: tuple[ProfileComparison, ...]
    routes: tuple[Change, ...]

    @property
    def changes(self) -> tuple[Change, ...]:
        return (*(change for compared in self.profiles for change in compared.changes), *self.routes)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object of `bub diff --json`, the dangerous changes first."""
        told: list[tuple[Change, str | None]] = [(change, None) for change in self.routes]
        told += [(change, compared.name) for compared in self.profiles for change in compared.changes]
        told.sort(key=lambda item: item[0].rank)
        return {"version": 1, "differs": bool(told), "changes": [change.as_dict(profile) for change, profile in told]}


def compare(old: Document, new: Document, profiles: tuple[str, str] | None = None) -> Comparison:
    """Find what changes in behaviour from `old` to `new`: in one profile of each, or in all that they have.

    A profile that only one side has is compared with `default` of the other, which its messages get there. Nothing is
    imported and no reference is looked up. Raises `PipelineError` with the findings of both sides when one of them
    cannot be read, and `UsageError` for a profile that is not there.
    """
    for document, profile in zip((old, new), profiles or (), strict=False):
        _check_profile_exists(document, profile)
    pairs = [_Pair(profiles[1], *profiles)] if profiles is not None else _pairs(old, new)
    plans = [(make_plan(old, pair.old), make_plan(new, pair.new)) for pair in pairs]
    findings = [*check_document(old), *check_document(new)]
    # The profiles do not report once more what a missing parent lacks.
    told = [plan.findings.items for both in plans for plan in both if plan.document.complete]
    findings += [finding for items in told for finding in items]
    if any(finding.severity == "error" for finding in findings):
        raise PipelineError(findings)
    compared = []
    for pair, (before, after) in zip(pairs, plans, strict=True):
        changes = Changes()
        if profiles is None and pair.old != pair.new:
            _report_unpaired(pair, old, new, changes)
        for part in _PARTS:
            part(before, after, changes)
        compared.append(ProfileComparison(*pair, changes.sort()))
    routed = Changes()
    if profiles is None:
        routes.compare(old, new, routed)
    return Comparison(tuple(compared), routed.sort())


def _check_profile_exists(document: Document, profile: str) -> None:
    known = profiles_of(document)
    if profile not in known and document.complete:
        hint = did_you_mean(profile, known) or f"it has {list_names(known)}"
        raise UsageError(f"{document.file} has no profile `{profile}`", help=hint)


class _Pair(NamedTuple):
    name: str
    old: str
    new: str


def _pairs(old: Document, new: Document) -> list[_Pair]:
    """Return the profiles to compare: each with the one of its name, and if there is none with `default`."""
    before, after = profiles_of(old), profiles_of(new)
    pairs = [_Pair(name, name if name in before else DEFAULT_PROFILE, name) for name in after]
    return pairs + [_Pair(name, name, DEFAULT_PROFILE) for name in before if name not in after]


def _report_unpaired(pair: _Pair, old: Document, new: Document, changes: Changes) -> None:
    """Tell that only one side has a profile."""
    path = f"profiles.{pair.name}"
    if pair.name == pair.new:
        message = f"profile `{pair.name}` is new; its messages got `{pair.old}` before"
        changes.add("profiles.added", message, path, new.root.get("profiles", pair.name), new=pair.name)
    else:
        message = f"profile `{pair.name}` is gone; its messages get `{pair.new}` now"
        changes.add("profiles.removed", message, path, old.root.get("profiles", pair.name), old=pair.name)
