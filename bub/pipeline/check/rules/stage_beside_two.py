"""A stage is directly beside one other."""

from __future__ import annotations

from bub.base.diagnostics import Related
from bub.pipeline.plan.plan import Plan

CODE = "B123"


def check(plan: Plan) -> None:
    """Find stages that say both `before` and `after`."""
    for layer in plan.layers:
        for name, node in layer.stages.items():
            before, after = node.get("before"), node.get("after")
            if before is not None and after is not None:
                plan.findings.add(
                    CODE,
                    f"stage `{name}` has both `before` and `after`",
                    after.where,
                    path=f"stages.{name}",
                    help="keep one of the two: a stage is directly beside one other stage",
                    related=[Related("the other one is here", before.where.file, before.where.range)],
                )
