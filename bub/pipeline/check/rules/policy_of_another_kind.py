"""What a failure does is something the kind can do: a gate always denies, and nothing else can."""

from __future__ import annotations

from typing import get_args

from bub.hooks.facts import KINDS, Policy
from bub.pipeline.plan.callers import kind_of
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import text_of
from bub.pipeline.source.document import Node

CODE = "B114"


def check(plan: Plan) -> None:
    """Find an `on_failure` that the kind of the stage or hook does not know."""
    for name, hook in plan.hooks.items():
        kind = kind_of(plan, hook)
        if hook.node is not None and kind is not None:
            _check(plan, f"hook `{name}`", f"hooks.{name}", kind.name, hook.node)
    for stage in plan.stages:
        if stage.kind is not None:
            _check(plan, str(stage), f"stages.{stage.id}", stage.kind.name, stage.node)


def _check(plan: Plan, who: str, path: str, kind: str, node: Node) -> None:
    said = node.get("on_failure")
    policy = text_of(said)
    if said is None or policy not in get_args(Policy) or policy in KINDS[kind].policies or path in plan.kind_changes:
        return
    if kind == "gate":
        message, advice = f"{who} is a gate, and a gate that fails always denies", "leave `on_failure` out"
    else:
        message, advice = f"{who} cannot deny: only a gate can", "use `propagate` or `skip`, or make it a gate"
    plan.findings.add(CODE, message, said.place, path=f"{path}.on_failure", help=advice)
