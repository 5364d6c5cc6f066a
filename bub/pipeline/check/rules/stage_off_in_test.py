"""A test counts on stages that are switched on in its profile."""

from __future__ import annotations

from bub.base.diagnostics import Place, Related
from bub.pipeline.check.cases import Case
from bub.pipeline.check.words import join_names
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.swaps import REPLACE

CODE = "B173"


def check(plan: Plan, case: Case) -> None:
    """Find mocks that are never asked, and stages expected to run or fail that are off or replaced (warnings)."""
    for name, mock in case.mocks():
        if not _is_called(plan, name):
            _check(plan, case, name, f"mocks stage `{name}`, which", mock.where, f"mock.{name}")
    for expected in case.expected_stages():
        if expected.key != "skipped":
            said = f"expects stage `{expected.stage}` {expected.what}, but it"
            _check(plan, case, expected.stage, said, expected.place, expected.path)


def _is_called(plan: Plan, name: str) -> bool:
    """Whether a name is also that of a hook point which a stage calls that is on."""
    callers = [stage.hook.point for stage in plan.stages if stage.enabled]
    return any(name in (point.name, point.twin) for point in callers)


def _check(plan: Plan, case: Case, name: str, said: str, place: Place, key: str) -> None:
    stage = plan.stage(name) if name in plan.position else None
    if stage is None or stage.enabled:
        return
    if stage.replaced_by:
        what, why = f"is replaced by {join_names(stage.replaced_by, 'and')}", "it is replaced here"
        off = plan.stage(stage.replaced_by[0]).place_of(REPLACE)
        advice = f"name {join_names(stage.replaced_by)} instead"
    else:
        what, why, off = "is off", "it is switched off here", stage.place_of("enabled")
        advice = "take it out, or test a profile in which the stage is on"
    plan.findings.warn(
        CODE,
        f"{case} {said} {what} in profile `{case.profile}`",
        place,
        path=f"{case.path}.{key}",
        profile=case.profile,
        help=advice,
        related=[Related(why, off.file, off.range)],
    )
