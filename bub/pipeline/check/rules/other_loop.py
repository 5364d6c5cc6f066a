"""A plugin runs on the loop that it is written for."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from bub.base.diagnostics import Position, Range, Related
from bub.hooks.facts import BUILTIN
from bub.hooks.loops import ON_NO_LOOP, find_use
from bub.pipeline.plan.offers import Offers
from bub.pipeline.plan.plan import Plan
from bub.plugins.plugin_set import LoadedPlugin

CODE = "B250"


def check(plan: Plan, offers: Offers) -> None:
    """Find plugins that are written for asyncio and do not say so, and those that say so and are written for trio."""
    for plugin in offers.plugins.plugins:
        is_on_asyncio = plugin.name in offers.plugins.hosts
        if plugin.name == BUILTIN or (plan.is_shipped(plugin.name) and not is_on_asyncio):
            continue
        needs, says = ("trio", "says") if is_on_asyncio else ("asyncio", "does not say")
        use = find_use(_starts_of(offers, plugin), needs)
        if use is None:
            continue
        start = Position(use.line, 1)
        said = plan.root.get("plugins", plugin.name, "runtime")
        plan.findings.add(
            CODE,
            f"plugin `{plugin.name}` is written for {needs} (it names `{use.name}`),"
            f" but the file {says} `runtime: asyncio`",
            said.where if said is not None else offers.find_listing(plugin.name),
            severity="warning",
            path=f"plugins.{plugin.name}.runtime",
            profile=plan.profile,
            help=f"take `runtime` of `{plugin.name}` out"
            if is_on_asyncio
            else f"say `plugins: {{{plugin.name}: {{runtime: asyncio}}}}`",
            related=[Related("it is named here", use.file, Range(start, start))],
        )


def _starts_of(offers: Offers, plugin: LoadedPlugin) -> list[Any]:
    """What Bub calls of a plugin, and the class it is of: its methods call each other."""
    called = [one.function for one in offers.by_plugin[plugin.name] if one.hook not in ON_NO_LOOP]
    return called if isinstance(plugin.plugin, ModuleType) else [*called, type(plugin.plugin)]
