"""Which stages judge what a stream says: its words are shown once they have spoken."""

from __future__ import annotations

from collections.abc import Mapping

from bub.hooks.facts import OUTBOUNDS
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import text_of
from bub.pipeline.plan.stages import StagePlan
from bub.pipeline.plan.waits import waits_of

AT_ONCE, CHECKED = "at_once", "checked"
"""What `show` says of a stage whose words wait for nobody, and what holds if it says nothing."""


def is_stream(stage: StagePlan) -> bool:
    """Return whether people see the words of a stage while they come."""
    return stage.enabled and stage.kind is not None and stage.kind.name == "stream"


def shows_at_once(stage: StagePlan) -> bool:
    """Return whether a stream lets its words through whoever judges them below."""
    return is_stream(stage) and text_of(stage.node.get("show")) == AT_ONCE


def checks_of(plan: Plan, stream: StagePlan) -> list[StagePlan]:
    """Return the stages below a stream that can keep back or change what it says, in the order they run.

    They take what it makes, what is made from that, or the replies. Who implements them is not known here.
    """
    if not is_stream(stream):
        return []
    said = {OUTBOUNDS, *stream.makes}
    checks = []
    for stage in plan.stages[plan.position[stream.id] + 1 :]:
        if stage.enabled and said.intersection(stage.taken):
            said.update(stage.makes)
            if stage.kind is not None and stage.kind.can_object:
                checks.append(stage)
    if not checks:
        return []
    before = waits_of(plan).before
    return [stage for stage in checks if stream.id in before[stage.id]]


def describe_showing(plan: Plan, stream: StagePlan, asked: Mapping[str, object] | None = None) -> str:
    """Return when the words of a stream are shown, in a few words; "" if they wait for nobody.

    `asked` are the implementations of each stage, if they are known: without them a check is not waited for.
    """
    if shows_at_once(stream):
        return "shown at once"
    checks = [check for check in checks_of(plan, stream) if asked is None or asked.get(check.id)]
    if not checks:
        return ""
    known = asked is not None or all(check.kind is not None and check.kind.name == "gate" for check in checks)
    return f"shown after {', '.join(check.id for check in checks)}{'' if known else ' if implemented'}"
