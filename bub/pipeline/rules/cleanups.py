"""A clean-up runs once and is bounded in time (B124, B126)."""

from __future__ import annotations

from bub.pipeline.plan import Plan


def check(plan: Plan) -> None:
    """Find clean-ups without a time-out: they are shielded from cancellation, so nothing else would end them."""
    for stage in plan.stages:
        if stage.cleanup_for is not None and stage.each is not None:
            plan.findings.add(
                "B126",
                f"{stage} is a clean-up and runs for each of `{stage.each}`; it can be only one of them",
                stage.place_of("for_each"),
                path=f"stages.{stage.id}.for_each",
                help="take one of the two keys out",
            )
        hook_timeout = stage.hook.node.get("timeout") if stage.hook.node is not None else None
        if stage.cleanup_for is not None and stage.node.get("timeout") is None and hook_timeout is None:
            plan.findings.add(
                "B124",
                f"{stage} is a clean-up without a `timeout`",
                stage.where,
                path=f"stages.{stage.id}",
                help="nothing cancels a clean-up, so say how long it may take, such as `timeout: 30s`",
            )
