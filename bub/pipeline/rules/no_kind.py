"""Every stage and every hook of one's own has a kind."""

from __future__ import annotations

from bub.hookspecs import HOOK_POINTS
from bub.pipeline.plan import Plan

CODE = "B110"


def check(plan: Plan) -> None:
    """Find stages and hooks of which nobody says how they are called."""
    for stage in plan.stages:
        called = stage.hook.point
        # Of a hook that does not exist, that is what is wrong.
        exists = stage.hook.known or called.name in plan.hooks
        if stage.kind is None and stage.node.get("kind") is None and exists:
            plan.findings.add(
                CODE,
                f"{stage} has no kind",
                stage.where,
                path=f"stages.{stage.id}",
                help=f"say how `{called.name}` is called, such as `kind: {called.kinds[0] or 'observer'}`",
            )
    for name, hook in plan.hooks.items():
        if hook.known or hook.node is None or hook.node.get("kind") is not None:
            continue
        if all(stage.kind is None for stage in plan.callers.get(name, ())):
            plan.findings.add(
                CODE,
                f"hook `{name}` has no kind",
                hook.node.where,
                path=f"hooks.{name}",
                help=plan.findings.did_you_mean(name, HOOK_POINTS)
                or f"say how it is called: `{name}: {{kind: observer, takes: […]}}`",
            )
