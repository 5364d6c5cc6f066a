"""A test expects a stream only in a profile that has one."""

from __future__ import annotations

from bub.hooks.facts import KINDS
from bub.pipeline.check.cases import Case
from bub.pipeline.plan.plan import Plan

CODE = "B154"


def check(plan: Plan, case: Case) -> None:
    """Find `streamed` if no stage streams: nothing is ever shown before the reply (warnings)."""
    stream = KINDS["stream"]
    if any(stage.enabled and (stage.kind is None or stage.kind is stream) for stage in plan.stages):
        return
    for at, turn in case.turns():
        said = turn.get("expect", "streamed")
        if said is not None:
            plan.findings.warn(
                CODE,
                f"{case} expects streamed text, but no stage of profile `{case.profile}` streams",
                said.where,
                path=f"{case.path}.{at}.expect.streamed" if at else f"{case.path}.expect.streamed",
                profile=case.profile,
                help="take it out, or give the stage that asks the model `kind: stream`",
            )
