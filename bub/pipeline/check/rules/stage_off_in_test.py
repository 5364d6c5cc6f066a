"""A test counts on stages that are switched on in its profile."""

from __future__ import annotations

from bub.base.diagnostics import Place, Related
from bub.pipeline.plan.cases import Case
from bub.pipeline.plan.plan import Plan

CODE = "B173"


def check(plan: Plan, case: Case) -> None:
    """Find mocks that are never asked, and stages expected to run or fail that are off (warnings)."""
    for name, mock in case.mocks():
        _check(plan, case, name, f"mocks stage `{name}`, which", mock.where, f"mock.{name}")
    for expected in case.expected_stages():
        if expected.key != "skipped":
            said = f"expects stage `{expected.stage}` {expected.what}, but it"
            _check(plan, case, expected.stage, said, expected.place, f"expect.{expected.key}")


def _check(plan: Plan, case: Case, name: str, said: str, place: Place, key: str) -> None:
    stage = plan.stages[plan.position[name]] if name in plan.position else None
    if stage is not None and not stage.enabled:
        off = stage.place_of("enabled")
        plan.findings.warn(
            CODE,
            f"{case} {said} is off in profile `{case.profile}`",
            place,
            path=f"{case.path}.{key}",
            profile=case.profile,
            help="take it out, or test a profile in which the stage is on",
            related=[Related("it is switched off here", off.file, off.range)],
        )
