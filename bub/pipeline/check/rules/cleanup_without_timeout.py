"""A clean-up is bounded in time."""

from __future__ import annotations

from bub.pipeline.plan.plan import Plan

CODE = "B124"


def check(plan: Plan) -> None:
    """Find clean-ups without a time-out: they are shielded from cancellation, so nothing else would end them."""
    for stage in plan.stages:
        hook_timeout = stage.hook.node.get("timeout") if stage.hook.node is not None else None
        if stage.cleanup_for is not None and stage.node.get("timeout") is None and hook_timeout is None:
            plan.findings.add(
                CODE,
                f"{stage} is a clean-up without a `timeout`",
                stage.where,
                path=f"stages.{stage.id}",
                help="nothing cancels a clean-up, so say how long it may take, such as `timeout: 30s`",
            )
