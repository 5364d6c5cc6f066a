"""An argument with a default is one that the hook offers, or surely one of the plugin's own."""

from __future__ import annotations

from bub.base.diagnostics import sure_repair
from bub.hooks.facts import BUILTIN
from bub.hooks.implementations import Implementation
from bub.hookspecs import HOOK_POINTS
from bub.pipeline.plan.offers import Offers
from bub.pipeline.plan.plan import Plan, known_values

CODE = "B216"


def check(plan: Plan, offers: Offers) -> None:
    """Find arguments with a default that are one letter off what a hook offers; they always keep their default.

    A gate that is offered nothing of what it asks for, though the pipeline has it, looks at nothing either.
    """
    for implementation, point in offers.fitting():
        hook = offers.hooks.get(point.name)
        offered = set(hook.takes if hook is not None else point.takes)
        named = {*implementation.required, *implementation.optional}
        is_gate = offers.is_gate(point.name)
        for argument in implementation.optional if implementation.plugin != BUILTIN else ():
            if argument in offered:
                continue
            meant = sure_repair(argument, offered - named)
            exists = argument in known_values(plan) or argument in HOOK_POINTS.get(point.name, point).takes
            if meant is not None:
                _tell(plan, offers, implementation, argument, f"did you mean `{meant}`?", is_gate=is_gate)
            elif is_gate and exists and named.isdisjoint(offered):
                advice = f"add it to what the hook takes: `{point.name}: {{takes: [{argument}]}}`"
                _tell(plan, offers, implementation, argument, advice, is_gate=is_gate)


def _tell(
    plan: Plan, offers: Offers, implementation: Implementation, argument: str, advice: str, *, is_gate: bool
) -> None:
    plan.findings.add(
        CODE,
        f"plugin `{implementation.plugin}` asks `{implementation.hook}` for `{argument}`, but this hook has no such"
        f" argument, so `{argument}` always keeps its default",
        offers.place_of_argument(implementation, argument),
        severity="error" if is_gate else "warning",
        help=advice,
    )
