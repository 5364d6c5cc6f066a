"""A stage has only the keys that its kind knows."""

from __future__ import annotations

from bub.hooks.facts import KIND_KEYS
from bub.pipeline.plan.plan import Plan

CODE = "B113"


def check(plan: Plan) -> None:
    """Find keys that would have no effect, since they are for stages of another kind."""
    for stage in plan.stages:
        if stage.kind is None or f"stages.{stage.id}" in plan.kind_changes:
            continue
        for key, kinds in KIND_KEYS.items():
            node = stage.node.get(key)
            if node is not None and stage.kind.name not in kinds:
                plan.findings.add(
                    CODE,
                    f"{stage} is of kind `{stage.kind.name}`, which knows no `{key}`",
                    node.where,
                    path=f"stages.{stage.id}.{key}",
                    help=f"`{key}` is for " + ", ".join(f"`{kind}`" for kind in kinds),
                )
