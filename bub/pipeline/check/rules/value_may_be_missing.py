"""A stage whose value is taken always yields one."""

from __future__ import annotations

from bub.base.diagnostics import Related
from bub.pipeline.plan.plan import Plan, StagePlan

CODE = "B132"


def check(plan: Plan) -> None:
    """Find stages that are off, or may be skipped or fail, have nothing to yield then, and whose value is taken."""
    for index, stage in enumerate(plan.stages):
        if stage.kind is None or stage.kind.name not in ("firstresult", "stream") or stage.yields_something:
            continue
        why, key = _why_nothing(plan, stage)
        value = stage.node.get("into")
        if not why or value is None or not isinstance(value.value, str):
            continue
        takers = (other for other in plan.flow.takers.get(value.value, ()) if other.enabled)
        taker = next((other for other in takers if plan.position[other.id] > index), None)
        if taker is not None:
            plan.findings.add(
                CODE,
                f"`{stage.id}` {why} `{taker.id}` takes `{value.value}`",
                stage.place_of(key),
                path=f"stages.{stage.id}.{key}",
                help="give it a `default`: what it yields then",
                related=[Related(f"`{taker.id}` stands here", taker.where.file, taker.where.range)],
            )


def _why_nothing(plan: Plan, stage: StagePlan) -> tuple[str, str]:
    """Why a stage may yield nothing, and the key that says so; ("", "") where it always yields something."""
    if not stage.enabled:
        # Whoever reads the pipeline finds the stage there, and not the profile that switches it off.
        layer = stage.place_of("enabled").layer
        profile = next((name for name in plan.effective.chain if layer == f"profile {name}"), None)
        return f"is defined, but off in profile `{profile}`, and" if profile else "is switched off, but", "enabled"
    if stage.node.get("when") is not None:
        return "may be skipped by its `when`, but", "when"
    if stage.on_failure == "skip":
        return "may be left out when it fails, but", "on_failure"
    return "", ""
