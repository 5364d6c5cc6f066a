"""A modifying stage may change something."""

from __future__ import annotations

from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.stages import StagePlan

CODE = "B188"


def check(plan: Plan) -> None:
    """Find modifying stages without `changes`: whatever a plugin returns there is left out."""
    for stage in plan.stages:
        if stage.kind is None or "changes" not in stage.kind.keys or not stage.enabled:
            continue
        said = stage.node.get("changes")
        if said is not None and (said.elements() or not said.is_sequence):
            continue  # what is no list, the schema reports
        plan.findings.warn(
            CODE,
            f"{stage} lists no value under `changes`, so Bub ignores what plugins return there",
            said.where if said is not None else stage.where,
            path=f"stages.{stage.id}" + (".changes" if said is not None else ""),
            help=f"list the values that it may set, such as `changes: [{_usual(plan, stage)}]`",
        )


def _usual(plan: Plan, stage: StagePlan) -> str:
    """A value that such a stage could change: the item, else the first of those it takes that a stage makes."""
    if stage.each is not None:
        return "message"
    return next((name for name in stage.hook.takes if name in plan.flow.makers), "message")
