"""Every stage that another one names exists."""

from __future__ import annotations

from bub.pipeline.plan.plan import Plan, known_stages
from bub.pipeline.plan.scalars import names_of
from bub.pipeline.plan.swaps import REPLACE

CODE = "B120"


def check(plan: Plan) -> None:
    """Find `needs`, `cleanup_for`, `before`, `after` and `replace` that name no stage."""
    known = known_stages(plan)
    for stage in plan.stages:
        asked = [("needs", *need) for need in names_of(stage.node.get("needs"))]
        cleanup_for = stage.node.get("cleanup_for")
        if stage.cleanup_for is not None and cleanup_for is not None:
            asked.append(("cleanup_for", stage.cleanup_for, cleanup_for.place))
        for key, name, place in asked:
            if name not in known:
                verb = "needs" if key == "needs" else "cleans up for"
                plan.findings.add_unknown(
                    CODE,
                    f"{stage} {verb} `{name}`, which does not exist",
                    place,
                    name,
                    known - {stage.id},
                    path=f"stages.{stage.id}.{key}",
                )
    for layer in plan.layers:
        for anchor in layer.anchors():
            if anchor.other not in layer.known:
                what = "replaces" if anchor.side == REPLACE else f"is placed {anchor.side}"
                plan.findings.add_unknown(
                    CODE,
                    f"stage `{anchor.stage}` {what} `{anchor.other}`, which does not exist",
                    anchor.place,
                    anchor.other,
                    layer.known - {anchor.stage},
                    path=f"stages.{anchor.stage}.{anchor.side}",
                )
