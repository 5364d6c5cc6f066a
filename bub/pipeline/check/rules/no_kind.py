"""Every stage and every hook of the file's own has a kind."""

from __future__ import annotations

from bub.hookspecs import HOOK_POINTS
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.stages import HookPlan
from bub.pipeline.source.document import Node

CODE = "B110"


def check(plan: Plan) -> None:
    """Find stages and hooks if nobody says how they are called.

    A hook of the file's own without a kind is one finding for all stages that call it, unless one of them says a kind.
    """
    unsaid = {name for name, hook in plan.hooks.items() if _is_unsaid(plan, name, hook)}
    for stage in plan.stages:
        called = stage.hook.point
        # Of a hook that does not exist, that is what is wrong; a kind that is none is the schema's to report.
        is_told = called.name in unsaid or not (stage.hook.known or called.name in plan.hooks)
        if not is_told and stage.kind is None and not (_says_kind(stage.node) or _says_kind(stage.hook.node)):
            plan.findings.add(
                CODE,
                f"{stage} has no kind",
                stage.where,
                path=f"stages.{stage.id}",
                help=f"say how Bub calls `{called.name}`, such as `kind: {called.kinds[0] or 'observer'}`",
            )
    for name in unsaid:
        node = plan.hooks[name].node
        if node is not None:
            plan.findings.add(
                CODE,
                f"hook `{name}` has no kind",
                node.where,
                path=f"hooks.{name}",
                help=plan.findings.did_you_mean(name, HOOK_POINTS)
                or f"say how Bub calls it: `{name}: {{kind: observer, takes: […]}}`",
            )


def _is_unsaid(plan: Plan, name: str, hook: HookPlan) -> bool:
    saying = (hook.node, *(stage.node for stage in plan.callers.get(name, ())))
    return not hook.known and not any(_says_kind(node) for node in saying)


def _says_kind(node: Node | None) -> bool:
    return node is not None and node.get("kind") is not None
