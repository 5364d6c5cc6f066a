"""`only` names plugins that the profile allows (B164)."""

from __future__ import annotations

from bub.diagnostics import Related
from bub.pipeline.document import Node
from bub.pipeline.plan import Plan, names_of


def check(plan: Plan) -> None:
    """Find plugins in `only` that the profile's list does not have; they would never be asked."""
    for stage in plan.stages:
        _check(plan, str(stage), stage.node, f"stages.{stage.id}.only")
    for name, hook in plan.hooks.items():
        if hook.node is not None:
            _check(plan, f"hook `{name}`", hook.node, f"hooks.{name}.only")


def _check(plan: Plan, who: str, node: Node, path: str) -> None:
    allowed = {"builtin", *(name for name, _ in plan.allowlist)}
    listing = plan.effective.allowlist
    for name, place in names_of(node.get("only")):
        if name not in allowed:
            plan.findings.add(
                "B164",
                f"{who} is for plugin `{name}`, which profile `{plan.profile}` does not allow",
                place,
                path=path,
                profile=plan.profile,
                help=plan.findings.did_you_mean(name, allowed) or f"add `{name}` to the profile's `plugins`",
                related=[]
                if listing is None
                else [Related("the profile's list is here", listing.where.file, listing.where.range)],
            )
