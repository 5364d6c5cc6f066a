"""A plugin that is listed implements something."""

from __future__ import annotations

from bub.hooks.facts import BUILTIN
from bub.pipeline.plan.offers import Offers
from bub.pipeline.plan.plan import Plan

CODE = "B207"


def check(plan: Plan, offers: Offers) -> None:
    """Find plugins without a single hook, mostly ones that forgot the mark."""
    for plugin in offers.plugins.plugins:
        if not offers.by_plugin[plugin.name] and plugin.name != BUILTIN:
            plan.findings.add(
                CODE,
                f"plugin `{plugin.name}` ({plugin.source}) implements no hook",
                offers.find_listing(plugin.name),
                path=f"profiles.{plan.profile}.plugins",
                help="mark its functions with `@bub.hookimpl`, name a class of the file with `plugin = ITS_NAME`,"
                " or take it off the list",
            )
