"""A plugin implements hooks that exist."""

from __future__ import annotations

from bub.hooks.facts import REFUSED
from bub.pipeline.plan.offers import Offers
from bub.pipeline.plan.plan import Plan

CODE = "B201"


def check(plan: Plan, offers: Offers) -> None:
    """Find implementations of hooks that neither Bub nor this pipeline knows; nobody would call them.

    One that is marked as optional waits for a file that declares its point.
    """
    for name, found in offers.by_hook.items():
        for implementation in found:
            if name not in offers.points and not (implementation.wrapper or implementation.is_optional):
                plan.findings.add(
                    CODE,
                    f"plugin `{implementation.plugin}` implements `{name}`, which is not a hook",
                    offers.place_of(implementation),
                    help=REFUSED.get(name)
                    or plan.findings.did_you_mean(name, offers.points)
                    or f"declare it under `hooks:`, rename `{name}`, or mark it `@hookimpl(optional=True)`",
                )
