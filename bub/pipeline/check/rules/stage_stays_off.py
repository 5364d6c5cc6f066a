"""What a profile says of a stage counts for something."""

from __future__ import annotations

from bub.base.diagnostics import Related
from bub.pipeline.plan.plan import Plan

CODE = "B196"


def check(plan: Plan) -> None:
    """Find stages that a profile changes while they stay switched off, as its file or its base says."""
    own = f"profile {plan.profile}"
    for stage in plan.stages:
        switch = stage.node.get("enabled")
        if stage.enabled or switch is None or switch.place.layer == own:
            continue
        said = [layer.root.get("stages", stage.id) for layer in plan.effective.layers if layer.name == own]
        changed = next(((key, node) for entry in said if entry is not None for key, node in entry.items()), None)
        if changed is not None:
            key, node = changed
            plan.findings.warn(
                CODE,
                f"profile `{plan.profile}` sets `{key}` of {stage}, but this stage is switched off",
                node.where,
                path=f"profiles.{plan.profile}.stages.{stage.id}.{key}",
                profile=plan.profile,
                help="write `enabled: true` beside it, or take it out",
                related=[Related("it is switched off here", switch.where.file, switch.where.range)],
            )
