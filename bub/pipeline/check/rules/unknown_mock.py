"""A test mocks stages and hooks that its pipeline has."""

from __future__ import annotations

from bub.hookspecs import ERROR_POINT, HOOK_POINTS, MODEL_POINT
from bub.pipeline.check.cases import Case
from bub.pipeline.plan.plan import Plan, known_stages

CODE = "B171"


def check(plan: Plan, case: Case) -> None:
    """Find mocks of what is neither a stage nor a hook here; the real thing would run in their stead."""
    called = {ERROR_POINT, MODEL_POINT, *plan.callers, *plan.hooks}
    twins = {HOOK_POINTS[name].twin for name in called if name in HOOK_POINTS}
    known = {*known_stages(plan), *called, *(twin for twin in twins if twin is not None)}
    for name, mock in case.mocks():
        if name not in known:
            plan.findings.add_unknown(
                CODE,
                f"{case} mocks `{name}`, which is neither a stage nor a hook of profile `{case.profile}`",
                mock.where,
                name,
                known,
                path=f"{case.path}.mock.{name}",
                profile=case.profile,
                help="give a mock the name of a stage, or of the hook that stages call",
            )
