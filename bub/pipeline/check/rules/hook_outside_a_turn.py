"""A stage calls a hook of the turn, not one of the start."""

from __future__ import annotations

from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import text_of

CODE = "B151"


def check(plan: Plan) -> None:
    """Find stages that call a hook which the framework calls by itself, outside any turn."""
    for stage in plan.stages:
        said = stage.node.get("hook")
        if stage.hook.point.bootstrap and (said is None or text_of(said) is not None):
            plan.findings.add(
                CODE,
                f"{stage} calls `{stage.hook.point.name}`, but no turn calls this hook",
                said.place if said is not None else stage.where,
                path=f"stages.{stage.id}.hook",
                help="take the stage out: Bub calls the hook by itself",
            )
