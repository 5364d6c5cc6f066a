"""Something bounds every stage in time."""

from __future__ import annotations

from bub.pipeline.plan.plan import Plan

CODE = "B183"


def check(plan: Plan) -> None:
    """Note the stages that may take for ever: what hangs there keeps its session from its next message."""
    for stage in plan.stages:
        hook_timeout = stage.hook.node.get("timeout") if stage.hook.node is not None else None
        if stage.enabled and stage.cleanup_for is None and stage.node.get("timeout") is None and hook_timeout is None:
            plan.findings.add(
                CODE,
                f"{stage} has no `timeout`: if it hangs, its session waits for ever",
                stage.where,
                severity="note",
                path=f"stages.{stage.id}",
                help="say how long it may take, such as `timeout: 30s`",
            )
