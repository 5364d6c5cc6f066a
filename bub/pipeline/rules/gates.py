"""A gate guards something (B140)."""

from __future__ import annotations

from bub.pipeline.plan import Plan


def check(plan: Plan) -> None:
    """Find gates with no stage behind them that would run."""
    for index, stage in enumerate(plan.stages):
        if stage.kind is None or stage.kind.name != "gate" or not stage.enabled or stage.id in plan.adrift:
            continue
        # What cleans up runs whether the gate allows or not.
        behind = [other for other in plan.stages[index + 1 :] if other.enabled and other.cleanup_for is None]
        if stage.each is not None:
            behind = [other for other in behind if stage.each in (*other.takes, *(name for name, _ in other.asks))]
        if not behind:
            plan.findings.add(
                "B140",
                f"{stage} is a gate, but nothing stands behind it that it could keep from running",
                stage.where,
                path=f"stages.{stage.id}",
                help="move it above what it is to guard, with `before: STAGE`",
            )
