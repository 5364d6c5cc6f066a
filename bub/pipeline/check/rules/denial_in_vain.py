"""A denial is returned, and from a gate."""

from __future__ import annotations

from msgspec.structs import replace

from bub.hooks.facts import BUILTIN
from bub.pipeline.plan.callers import kind_of
from bub.pipeline.plan.offers import Offers
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import names_of
from bub.pipeline.plan.stages import HookPlan
from bub.plugins.answers import DENY, denials_in

CODE = "B223"

_HEEDING = ("gate", "firstresult", "broadcast", "stream")
"""The kinds that deny, or whose answer may hold anything."""


def check(plan: Plan, offers: Offers) -> None:
    """Find each `{"deny": …}` that a hook makes and does not return, or returns though nobody heeds it.

    A hook of the pipeline's own that is no gate here may be one elsewhere, and on trial: there it is a warning.
    """
    for implementation, point in offers.fitting():
        hook = offers.hooks.get(point.name)
        kind = kind_of(plan, hook) if hook is not None else None
        if hook is None or kind is None or implementation.plugin == BUILTIN:
            continue
        is_heeded = _is_heeded(plan, hook, kind.name)
        for denial in denials_in(implementation.function):
            if denial.is_returned and is_heeded:
                continue
            what = f"makes a denial in `{point.name}`, but does not return it, so it denies nothing"
            advice = "write `return` in front of the denial"
            if denial.is_returned:
                what = f"returns a denial from `{point.name}`, but a hook of kind `{kind.name}` denies nothing"
                advice = "return `error` to reject the call, " if point.name == "before_tool_call" else ""
                advice += "implement a gate, such as `tool_gate` or one of your own"
            plan.findings.add(
                CODE,
                f"plugin `{implementation.plugin}` {what}",
                replace(offers.place_of(implementation), span=denial.range),
                severity="warning" if denial.is_returned and not hook.known else "error",
                help=advice,
            )


def _is_heeded(plan: Plan, hook: HookPlan, kind: str) -> bool:
    """Whether a denial that is returned comes to something; whoever fires a point of its own may read what it likes."""
    callers = plan.callers.get(hook.point.name, ())
    if kind == "modifying":
        changes = {name for stage in callers for name, _ in names_of(stage.node.get("changes"))}
        return DENY in changes or not (callers or hook.known)
    return kind in _HEEDING
