"""A plugin answers a question in one form: of two twin hooks it implements one."""

from __future__ import annotations

from bub.hookspecs import HOOK_POINTS
from bub.pipeline.plan.offers import Offers
from bub.pipeline.plan.plan import Plan

CODE = "B205"


def check(plan: Plan, offers: Offers) -> None:
    """Find plugins that implement both twins; which of the two answers would be an accident."""
    for plugin, found in offers.by_plugin.items():
        by_name = {implementation.hook: implementation for implementation in found}
        for name, implementation in by_name.items():
            twin = HOOK_POINTS[name].twin if name in HOOK_POINTS else None
            if twin is not None and twin in by_name and name < twin:
                plan.findings.add(
                    CODE,
                    f"plugin `{plugin}` implements both `{name}` and `{twin}`, which answer the same question",
                    offers.place_of(implementation),
                    help=f"keep `{twin}`",
                )
