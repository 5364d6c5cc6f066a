"""A condition on the items of a list asks for what these have."""

from __future__ import annotations

from bub.hooks.facts import BUILTIN, OUTBOUNDS, SESSION
from bub.pipeline.plan.offers import Offers
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.stages import StagePlan

CODE = "B221"

_OF_EVERY_REPLY = ("channel", "chat_id", "content", "kind", "session", SESSION)
"""What a condition may ask of each reply: what a denial says has all of it."""


def check(plan: Plan, offers: Offers) -> None:
    """Find a `when` on replies that have no such field: an error for a gate, which then is asked about none.

    What a plugin renders, changes or claims may have any field.
    """
    if offers.are_broken:
        return
    for stage in plan.stages:
        when, kind = stage.node.get("when"), stage.kind
        if when is None or kind is None or stage.each != OUTBOUNDS or not stage.enabled:
            continue
        known = {*_OF_EVERY_REPLY, *_fields_of_defaults(plan)}
        for field, glob in when.items():
            if field in known or any(_may_make_replies(offers, other) for other in plan.above(stage)):
                continue
            plan.findings.add(
                CODE,
                f"{stage} asks each of `{OUTBOUNDS}` for its {field}, but no reply has one"
                + (", so it lets everything pass" if kind.name == "gate" else ""),
                glob.where,
                severity="error" if kind.name == "gate" else "warning",
                path=f"stages.{stage.id}.when.{field}",
                profile=plan.profile,
                help=f'give the replies one, with `{field}: "{{{field}}}"` in the `default` that makes them',
            )


def _fields_of_defaults(plan: Plan) -> set[str]:
    """The fields of the replies that a stage makes if nobody answers."""
    defaults = [stage.node.get("default") for stage in plan.flow.makers.get(OUTBOUNDS, ())]
    items = [item for default in defaults if default is not None for item in default.elements()]
    return {field for item in items for field, _ in item.items()}


def _may_make_replies(offers: Offers, stage: StagePlan) -> bool:
    """Whether a plugin may change what a reply holds: it renders, changes or claims."""
    kind = stage.kind.name if stage.kind is not None else ""
    has_a_say = kind == "claiming" or (OUTBOUNDS in stage.makes and kind != "gate")
    found = offers.implementing(stage.hook.point)
    return has_a_say and stage.enabled and any(one.plugin != BUILTIN for one in found)
