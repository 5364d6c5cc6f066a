"""A test expects something of stages that its pipeline has."""

from __future__ import annotations

from bub.pipeline.check.cases import Case
from bub.pipeline.plan.plan import Plan, known_stages

CODE = "B172"


def check(plan: Plan, case: Case) -> None:
    """Find stages in `ran`, `skipped`, `error` and `ended_by` that do not exist; `skipped` would be met by any slip."""
    known = known_stages(plan)
    for expected in case.expected_stages():
        if expected.stage not in known:
            plan.findings.add_unknown(
                CODE,
                f"{case} expects stage `{expected.stage}` {expected.what},"
                f" but profile `{case.profile}` has no such stage",
                expected.place,
                expected.before + expected.stage,
                [expected.before + stage for stage in known],
                path=f"{case.path}.{expected.path}",
                profile=case.profile,
            )
