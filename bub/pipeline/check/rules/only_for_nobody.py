"""`only` names somebody."""

from __future__ import annotations

from bub.hooks.facts import Kind
from bub.pipeline.plan.callers import kind_of
from bub.pipeline.plan.plan import Plan

CODE = "B176"


def check(plan: Plan) -> None:
    """Find an `only: []`, for which nobody is asked: an error for a gate, which then lets everything pass."""
    for stage in plan.stages:
        if stage.enabled:
            _check(plan, str(stage), f"stages.{stage.id}", stage.kind, "say `enabled: false` to switch the stage off")
    for name, hook in plan.hooks.items():
        callers = plan.callers.get(name, ())
        if not callers or any(stage.node.get("only") is None for stage in callers):
            _check(plan, f"hook `{name}`", f"hooks.{name}", kind_of(plan, hook), "take the entry out")


def _check(plan: Plan, who: str, path: str, kind: Kind | None, instead: str) -> None:
    # As it is written: a list whose references stand for nothing is told of those.
    said = plan.effective.root.get(*path.split("."), "only")
    if said is None or not said.is_sequence or said.elements():
        return
    is_gate = kind is not None and kind.name == "gate"
    plan.findings.add(
        CODE,
        f"{who} is a gate that asks nobody, so it lets everything pass" if is_gate else f"{who} asks nobody",
        said.where,
        severity="error" if is_gate else "warning",
        path=f"{path}.only",
        help=f"name the plugins to ask, leave `only` out to ask all, or {instead}",
    )
