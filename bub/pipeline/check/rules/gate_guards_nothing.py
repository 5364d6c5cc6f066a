"""A gate guards something."""

from __future__ import annotations

from bub.pipeline.plan.plan import Plan, StagePlan

CODE = "B140"


def check(plan: Plan) -> None:
    """Find gates with no stage behind them that would run."""
    last = next((stage for stage in reversed(plan.stages) if _can_be_stopped(stage)), None)
    for index, stage in enumerate(plan.stages):
        if stage.kind is None or stage.kind.name != "gate" or not stage.enabled or stage.id in plan.adrift:
            continue
        if stage.each is None:
            guards = last is not None and plan.position[last.id] > index
        else:
            takers = plan.flow.takers[stage.each]
            guards = any(_can_be_stopped(other) and plan.position[other.id] > index for other in takers)
        if not guards:
            plan.findings.add(
                CODE,
                f"{stage} is a gate, but nothing stands behind it that it could keep from running",
                stage.where,
                path=f"stages.{stage.id}",
                help="move it above what it is to guard, with `before: STAGE`",
            )


def _can_be_stopped(stage: StagePlan) -> bool:
    """Whether a stage runs, and only if the gates above allow it: a clean-up runs in any case."""
    return stage.enabled and stage.cleanup_for is None
