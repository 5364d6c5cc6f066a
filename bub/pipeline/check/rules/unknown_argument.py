"""A plugin asks a hook for arguments that the hook has."""

from __future__ import annotations

from bub.pipeline.plan.offers import Offers
from bub.pipeline.plan.plan import Plan

CODE = "B202"


def check(plan: Plan, offers: Offers) -> None:
    """Find arguments that a hook does not have; an implementation cannot be called without them."""
    for implementation, point in offers.fitting():
        hook = offers.hooks.get(point.name)
        offered = hook.takes if hook is not None else point.takes
        narrowed = f"; this pipeline gives the hook only {', '.join(offered)}" if hook and hook.narrowed else ""
        for argument in implementation.required:
            if argument not in offered:
                plan.findings.add(
                    CODE,
                    f"plugin `{implementation.plugin}` asks `{point.name}` for `{argument}`, but this hook has no"
                    f" such argument{narrowed}",
                    offers.place_of(implementation),
                    help=plan.findings.did_you_mean(argument, offered) or f"it has: {', '.join(offered)}",
                )
