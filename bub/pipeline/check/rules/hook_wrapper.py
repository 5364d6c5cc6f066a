"""An implementation is a plain function, not one of pluggy's wrappers."""

from __future__ import annotations

from bub.pipeline.plan.offers import Offers
from bub.pipeline.plan.plan import Plan

CODE = "B206"


def check(plan: Plan, offers: Offers) -> None:
    """Find wrappers; Bub calls implementations by itself and would not call them around the others."""
    for name, found in offers.by_hook.items():
        for implementation in found:
            if implementation.wrapper:
                plan.findings.add(
                    CODE,
                    f"plugin `{implementation.plugin}` implements `{name}` as a wrapper, but Bub has no wrappers",
                    offers.place_of(implementation),
                    help="write it as a plain function; a stage of its own can run before or after another",
                )
