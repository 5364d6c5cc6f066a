"""A modifying stage changes what can still be changed where it is."""

from __future__ import annotations

from bub.hooks.facts import SESSION
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import names_of

CODE = "B134"


def check(plan: Plan) -> None:
    """Find stages that change the session under way, or, run for each item, more than the item."""
    for stage in plan.stages:
        for name, place in names_of(stage.node.get("changes")):
            if name == SESSION:
                message = f"{stage} changes `{SESSION}`, but the turn is already in the queue of its session"
                advice = "let the stage that makes `session_id` decide"
            elif stage.each is not None and name != "message":
                message = f"{stage} runs for each of `{stage.each}` and changes `{name}`, which all items share"
                advice = "such a stage can change only `message`, the item"
            else:
                continue
            plan.findings.add(CODE, message, place, path=f"stages.{stage.id}.changes", help=advice)
