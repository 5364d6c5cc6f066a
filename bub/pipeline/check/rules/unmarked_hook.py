"""A function that is called like a hook is marked as one, and is written in the plugin itself."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import msgspec

from bub.hooks.facts import BUILTIN
from bub.hookspecs import BUB_HOOK_NAMESPACE, HookPoint
from bub.pipeline.plan.offers import Offers
from bub.pipeline.plan.plan import Plan
from bub.plugins.plugin_set import LoadedPlugin
from bub.plugins.sources import uses

CODE = "B215"

_MARK = f"{BUB_HOOK_NAMESPACE}_impl"


class Unmarked(msgspec.Struct, frozen=True):
    """A function of a plugin that has the name of a hook and is never called; `why`, and what to do about it."""

    plugin: str
    hook: str
    function: Callable[..., Any]
    why: str
    advice: str


def check(plan: Plan, offers: Offers) -> None:
    """Find functions with the name of a hook and no mark, and marked ones in a class that is not the plugin.

    They are never called: an error for a gate, else a warning.
    """
    for one in find_unmarked(offers):
        is_gate = offers.is_gate(one.hook)
        plan.findings.add(
            CODE,
            f"plugin `{one.plugin}` has a function `{one.hook}` that {one.why}"
            + (", so it guards nothing" if is_gate else ""),
            offers.place_of_function(one.function, one.hook, one.plugin),
            severity="error" if is_gate else "warning",
            help=one.advice,
        )


def find_unmarked(offers: Offers) -> Iterator[Unmarked]:
    """Find every function that looks like a hook and is none, in each plugin that has hooks."""
    for plugin in offers.plugins.plugins:
        implemented = {one.hook for one in offers.by_plugin[plugin.name]}
        if plugin.name == BUILTIN or not implemented:
            continue
        for name, function in _unmarked(plugin.plugin):
            if name not in implemented and _is_meant_as_hook(function, name, plugin.plugin, offers):
                why, advice = "is not marked as a hook", "mark it with `@bub.hookimpl`, or give it another name"
                yield Unmarked(plugin.name, name, function, why, advice)
        for owner, name, function in _marked_elsewhere(offers, plugin):
            if name not in implemented and name in offers.points:
                why = f"is in `{owner}`, and `{owner}` is not the plugin"
                advice = f"make the class the plugin, `plugin = {owner}`, or move its hooks into the plugin"
                yield Unmarked(plugin.name, name, function, why, advice)


def _unmarked(plugin: object) -> Iterator[tuple[str, FunctionType]]:
    """The functions that are written in a plugin itself and have no mark, with what they are called there."""
    for name in dir(plugin):
        function = inspect.getattr_static(plugin, name, None)
        if isinstance(function, staticmethod | classmethod):
            function = function.__func__
        home = plugin.__name__ if isinstance(plugin, ModuleType) else None
        if not isinstance(function, FunctionType) or hasattr(function, _MARK):
            continue
        if home is None or function.__module__ == home:
            yield name, function


def _is_meant_as_hook(function: FunctionType, name: str, plugin: object, offers: Offers) -> bool:
    """Whether a function is meant as the hook of its name: what the plugin calls itself is a function of its own.

    So is one that wants what the hook does not have, unless the hook is a gate, and a hook that nobody calls here.
    """
    point = offers.points.get(name)
    if point is None or uses(plugin, name):
        return False
    called = point.bootstrap or point.sync_only or name in offers.hooks or point.twin in offers.hooks
    return offers.is_gate(name) or (called and _fits(function, point))


def _fits(function: FunctionType, point: HookPoint) -> bool:
    parameters = inspect.signature(function).parameters.values()
    wanted = {one.name for one in parameters if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD}
    return wanted - {"self", "cls"} <= set(point.takes)


def _marked_elsewhere(offers: Offers, plugin: LoadedPlugin) -> Iterator[tuple[str, str, FunctionType]]:
    """The hooks in other classes of a plugin's file, with the class; a package may offer those by themselves."""
    thing = plugin.plugin
    home = thing if isinstance(thing, ModuleType) else sys.modules.get(type(thing).__module__)
    if home is None or home.__name__ not in offers.plugins.modules:
        return
    for owner in vars(home).values():
        if inspect.isclass(owner) and owner.__module__ == home.__name__ and not isinstance(thing, owner):
            for name, function in vars(owner).items():
                if isinstance(function, FunctionType) and hasattr(function, _MARK):
                    yield owner.__name__, name, function
