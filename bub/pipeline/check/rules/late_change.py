"""Who changes something is above the stage that uses it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial

import msgspec

from bub.hooks.facts import OUTBOUNDS
from bub.pipeline.check.rules import gate_guards_nothing
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.stages import StagePlan

CODE = "B199"

_OF_THE_MODEL = ("prompt", "system")
"""The values that are made for whoever asks the model."""

_DISPATCH = "dispatch_outbound"
"""The hook that hands replies to who asked."""


class _Use(msgspec.Struct, frozen=True):
    """The stages that a value is made for, and what they have done with it once they are over."""

    stages: Sequence[StagePlan]
    done: str
    advice: str = ""


def check(plan: Plan) -> None:
    """Find changes of an answer that the replies are made of, of a prompt, or of replies, that come too late."""
    use_of = cache(partial(_use_of, plan))
    for stage in plan.stages:
        if not stage.enabled or stage.kind is None or not stage.kind.can_object:
            continue
        if plan.findings.speaks_of(stage.where, gate_guards_nothing.CODE):
            continue
        for name in dict.fromkeys(stage.makes):
            use = use_of(name)
            users = [user for user in use.stages if user is not stage]
            if not users or any(plan.position[user.id] > plan.position[stage.id] for user in users):
                continue
            last, verb = users[-1], "changes" if "changes" in stage.kind.keys else "judges"
            plan.findings.warn(
                CODE,
                f"{stage} {verb} `{name}`, but `{last.id}` above it {use.done}",
                stage.place_of("for_each" if stage.each is not None else "changes"),
                path=f"stages.{stage.id}",
                help=f"move it above `{last.id}`, with `before: {last.id}`{use.advice}",
                related=[last.taking(name)],
            )


def _use_of(plan: Plan, name: str) -> _Use:
    takers = plan.flow.takers.get(name, ())
    if name == OUTBOUNDS:
        sending = [stage for stage in takers if stage.enabled and stage.hook.point.name == _DISPATCH]
        return _Use(sending, "has already sent them")
    asking = [stage for stage in plan.stages if stage.enabled and stage.hook.point.form != "either"]
    if name in _OF_THE_MODEL:
        return _Use([stage for stage in asking if name in stage.taken], "has already asked the model")
    if all(stage.into != name for stage in asking):
        return _Use((), "")
    rendering = [stage for stage in takers if stage.into == OUTBOUNDS and (stage.enabled or stage.yields_something)]
    return _Use(
        rendering, "has already made the replies from it", ", or let it change each reply: `for_each: outbounds`"
    )
