"""A hook that is called if nothing can be awaited is implemented by plain functions."""

from __future__ import annotations

import inspect

from bub.pipeline.plan.offers import Offers
from bub.pipeline.plan.plan import Plan

CODE = "B203"


def check(plan: Plan, offers: Offers) -> None:
    """Find `async def` implementations of sync-only hooks."""
    for implementation, point in offers.fitting():
        if point.sync_only and inspect.iscoroutinefunction(implementation.function):
            plan.findings.add(
                CODE,
                f"plugin `{implementation.plugin}` implements `{point.name}` as `async def`,"
                " but Bub calls it from code that cannot await",
                offers.place_of(implementation),
                help="write it as a plain `def`",
            )
