"""What the agent fires is declared under `hooks:`, and is no stage."""

from __future__ import annotations

from bub.pipeline.plan.plan import Plan

CODE = "B178"


def check(plan: Plan) -> None:
    """Find stages that call a point of the agent's without what it is about; a gate there sees no tool call."""
    for stage in plan.stages:
        point = stage.hook.point
        lacking = [name for name in stage.hook.takes if name in plan.flow.missing]
        if not point.fired or not lacking or not stage.enabled:
            continue
        is_gate = stage.kind is not None and stage.kind.name == "gate"
        said = stage.node.get("hook")
        plan.findings.add(
            CODE,
            f"the agent fires `{point.name}`; {stage} calls it only once, and without "
            + ", ".join(f"`{name}`" for name in lacking)
            + (", so it guards nothing" if is_gate else ""),
            said.place if said is not None else stage.where,
            severity="error" if is_gate else "warning",
            path=f"stages.{stage.id}",
            help=f"declare it under `hooks:` instead: `{point.name}: {{kind: {point.kinds[0]}}}`",
        )
