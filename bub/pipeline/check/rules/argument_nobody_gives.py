"""What a hook takes, somebody who fires it hands over."""

from __future__ import annotations

from bub.hooks.facts import BUILTIN
from bub.pipeline.plan.callers import is_called_in_a_profile
from bub.pipeline.plan.offers import Offers
from bub.pipeline.plan.plan import Plan, known_values
from bub.pipeline.plan.scalars import names_of
from bub.plugins.sources import payloads_of

CODE = "B222"


def check(plan: Plan, offers: Offers) -> None:
    """Find arguments of the pipeline's own hooks that are None whenever a plugin fires them: an error for a gate."""
    if offers.are_broken:
        return
    for name, hook in plan.hooks.items():
        if hook.known or hook.node is None or is_called_in_a_profile(plan, name):
            continue
        given = _arguments_given(offers, name)
        for argument, place in names_of(hook.node.get("takes")) if given is not None else ():
            if argument in known_values(plan) or argument in (given or ()):
                continue
            plan.findings.add_unknown(
                CODE,
                f"hook `{name}` takes `{argument}`, but no plugin that fires the hook hands `{argument}` over",
                place,
                argument,
                (given or frozenset()) - set(hook.takes),
                severity="error" if offers.is_gate(name) else "warning",
                path=f"hooks.{name}.takes",
                profile=plan.profile,
                help=f'hand it over: `await fire("{name}", {argument}=…)`',
            )


def _arguments_given(offers: Offers, name: str) -> frozenset[str] | None:
    """What is handed over by those who fire a hook; None if nobody can tell, or nobody fires it."""
    payloads = [payloads_of(one.plugin, name) for one in offers.plugins.plugins if one.name != BUILTIN]
    if any(payload is None for payload in payloads) or not any(payloads):
        return None
    return frozenset(argument for payload in payloads for given in payload or () for argument in given)
