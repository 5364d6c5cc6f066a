"""`only` names plugins that the profile allows."""

from __future__ import annotations

from bub.base.diagnostics import Related
from bub.hooks.facts import BUILTIN
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import names_of
from bub.pipeline.source.document import Node
from bub.pipeline.source.interpolate import references

CODE = "B164"


def check(plan: Plan) -> None:
    """Find plugins in `only` that the profile's list does not have; they would never be asked."""
    for stage in plan.stages:
        _check(plan, str(stage), stage.node, f"stages.{stage.id}.only")
    for name, hook in plan.hooks.items():
        if hook.node is not None:
            _check(plan, f"hook `{name}`", hook.node, f"hooks.{name}.only")


def _check(plan: Plan, who: str, node: Node, path: str) -> None:
    listing = plan.effective.allowlist
    for name, place in names_of(node.get("only")):
        allowed = {BUILTIN, *(listed for listed, _ in plan.allowlist)}
        if name not in allowed and not references(name):
            plan.findings.add_unknown(
                CODE,
                f"{who} asks plugin `{name}`, which profile `{plan.profile}` does not allow",
                place,
                name,
                allowed,
                path=path,
                profile=plan.profile,
                help=f"add `{name}` to the profile's `plugins`",
                related=[]
                if listing is None
                else [Related("the profile's list is here", listing.where.file, listing.where.range)],
            )
