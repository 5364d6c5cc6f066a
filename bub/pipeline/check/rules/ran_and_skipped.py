"""What a test expects of a stage can come true: it either runs or is skipped."""

from __future__ import annotations

from bub.base.diagnostics import Related
from bub.pipeline.check.cases import Case
from bub.pipeline.plan.plan import Plan

CODE = "B174"


def check(plan: Plan, case: Case) -> None:
    """Find stages that a test expects to have run, or failed, and to have been skipped too."""
    named = list(case.expected_stages())
    alive = {(expected.turn, expected.stage): expected for expected in named if expected.key != "skipped"}
    for expected in named:
        other = alive.get((expected.turn, expected.stage))
        if expected.key == "skipped" and other is not None:
            plan.findings.add(
                CODE,
                f"{case} expects stage `{expected.stage}` both {other.what} and {expected.what}",
                expected.place,
                path=f"{case.path}.{expected.path}",
                help="take one of the two out",
                related=[Related("the other one is here", other.place.file, other.place.range)],
            )
