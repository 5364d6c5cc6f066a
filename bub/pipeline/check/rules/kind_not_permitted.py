"""A stage or hook is of a kind that its hook point permits."""

from __future__ import annotations

from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.stages import HookPlan
from bub.pipeline.source.document import Node

CODE = "B111"


def check(plan: Plan) -> None:
    """Find kinds that the hook point does not permit."""
    for name, hook in plan.hooks.items():
        if hook.node is not None and hook.kind is not None:
            _check(plan, f"hook `{name}`", f"hooks.{name}", hook, hook.kind.name, hook.node)
    for stage in plan.stages:
        # A hook of the start is of no kind that a stage may have; that the stage calls it says all there is to say.
        if stage.kind is not None and not stage.hook.point.bootstrap:
            _check(plan, str(stage), f"stages.{stage.id}", stage.hook, stage.kind.name, stage.node)


def _check(plan: Plan, who: str, path: str, hook: HookPlan, kind: str, node: Node) -> None:
    permitted: tuple[str, ...] = (kind,)
    if hook.known:
        permitted = hook.point.kinds
    elif hook.kind:
        permitted = (hook.kind.name,)
    said = node.get("kind")
    # If an inherited kind is changed, no other kind would be right either.
    if said is not None and kind not in permitted and path not in plan.kind_changes:
        plan.findings.add(
            CODE,
            f"{who} is of kind `{kind}`, which the hook `{hook.point.name}` does not permit",
            said.place,
            path=f"{path}.kind",
            help=f"`{hook.point.name}` can be " + " or ".join(f"`{other}`" for other in permitted),
        )
