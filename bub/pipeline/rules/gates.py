"""A gate guards something (B140)."""

from __future__ import annotations

from bub.pipeline.plan import Plan


def check(plan: Plan) -> None:
    """Find gates with no stage behind them that would run."""
    for index, stage in enumerate(plan.stages):
        if stage.kind is None or stage.kind.name != "gate" or not stage.enabled:
            continue
        behind = [other for other in plan.stages[index + 1 :] if other.enabled]
        if stage.each is not None:
            behind = [other for other in behind if other.each == stage.each]
        if not behind:
            plan.findings.add(
                "B140",
                f"{stage} is a gate, but nothing stands behind it that it could keep from running",
                stage.where,
                path=f"stages.{stage.id}",
                help="move it above what it is to guard, with `before: STAGE`",
            )
