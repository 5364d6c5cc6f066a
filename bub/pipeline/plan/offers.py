"""What the plugins of a profile offer a pipeline: their implementations, by plugin and by hook."""

from __future__ import annotations

import inspect
import linecache
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from bub.base.diagnostics import Place, Position, Range
from bub.hooks.implementations import Implementation, all_implementations
from bub.hookspecs import HOOK_POINTS, HookPoint
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.stages import HookPlan
from bub.plugins.plugin_set import LoadedPlugin, PluginSet

_LONGEST_HEAD = 20
"""Within how many lines of a function its arguments are looked for."""


class Offers(msgspec.Struct, frozen=True):
    """The implementations that a profile's plugins bring, and the hooks they are for.

    `found` are all that are registered, by hook in call order, also those of witnesses, which no profile lists.
    `hooks` are those that this pipeline calls or declares, `points` these and all that Bub knows.
    """

    plan: Plan
    plugins: PluginSet
    found: Mapping[str, tuple[Implementation, ...]]
    by_plugin: Mapping[str, tuple[Implementation, ...]]
    by_hook: Mapping[str, tuple[Implementation, ...]]
    hooks: Mapping[str, HookPlan]
    points: Mapping[str, HookPoint]

    def fitting(self) -> Iterator[tuple[Implementation, HookPoint]]:
        """The plain implementations of hooks that exist, each with its hook point."""
        for name, found in self.by_hook.items():
            for implementation in found if name in self.points else ():
                if not implementation.wrapper:
                    yield implementation, self.points[name]

    @property
    def are_broken(self) -> bool:
        """Whether a plugin did not load: what seems to be missing may be in it."""
        return any(finding.severity == "error" for finding in self.plugins.findings)

    def implementing(self, point: HookPoint) -> tuple[Implementation, ...]:
        """Who is asked at a point if nobody is left out: the implementations of its twin, too."""
        return (*self.by_hook.get(point.name, ()), *self.by_hook.get(point.twin or "", ()))

    def is_gate(self, name: str) -> bool:
        """Whether a hook is a gate, as its point or a stage that calls it says."""
        callers = self.plan.callers.get(name, ())
        kinds = {*self.points[name].kinds, *(stage.kind.name for stage in callers if stage.kind is not None)}
        return "gate" in kinds

    def find_plugin(self, name: str) -> LoadedPlugin | None:
        """Find a loaded plugin by its listed name; None for one that is optional and not there."""
        return next((plugin for plugin in self.plugins.plugins if plugin.name == name), None)

    def place_of(self, implementation: Implementation) -> Place:
        """Return the place of an implementation; that of its plugin in the profile's list if Python knows none."""
        name = getattr(implementation.function, "__name__", implementation.hook)
        return self._place_in(implementation.source, name, implementation.plugin)

    def place_of_function(self, function: Callable[..., Any], name: str, plugin: str) -> Place:
        """Return the place of a function of a plugin that is called `name` there and implements nothing."""
        code = inspect.unwrap(function).__code__
        return self._place_in((code.co_filename, code.co_firstlineno), name, plugin)

    def place_of_argument(self, implementation: Implementation, argument: str) -> Place:
        """Return the place of an argument in an implementation; that of its own name if the text does not show it."""
        place = self.place_of(implementation)
        if implementation.source is not None:
            file, _ = implementation.source
            lines = linecache.getlines(file)[place.range.start.line - 1 :]
            for number, text in enumerate(lines[:_LONGEST_HEAD], place.range.start.line):
                if found := re.search(rf"[(,\s]({re.escape(argument)})\s*[:=]", text):
                    return replace(place, span=_range_at(number, found))
        return place

    def _place_in(self, source: tuple[str, int] | None, name: str, plugin: str) -> Place:
        if source is None:
            return self.find_listing(plugin)
        file, line = source
        shown = Path(file)
        base = self.plan.document.base
        if base is not None and shown.is_relative_to(base.resolve()):
            shown = shown.relative_to(base.resolve())
        return Place(str(shown), _name_at(file, line, name))

    def find_listing(self, plugin: str) -> Place:
        """Find where the profile lists a plugin; the file itself for one that it need not list."""
        return next((place for name, place in self.plan.allowlist if name == plugin), self.plan.root.place)


def _name_at(file: str, first: int, name: str) -> Range:
    """Where the name of a function stands whose first decorator is in line `first`; that line, if there is no `def`."""
    linecache.checkcache(file)
    for number, text in enumerate(linecache.getlines(file)[first - 1 :], first):
        if found := re.match(rf"\s*(?:async\s+)?def\s+({re.escape(name)})\b", text):
            return _range_at(number, found)
    return Range(Position(first, 1), Position(first, 1))


def _range_at(line: int, found: re.Match[str]) -> Range:
    return Range(Position(line, found.start(1) + 1), Position(line, found.end(1) + 1))


def offers_of(plan: Plan, plugins: PluginSet) -> Offers:
    """What the loaded plugins implement, with the hooks of this pipeline beside it."""
    hooks = {**{stage.hook.point.name: stage.hook for stage in plan.stages}, **plan.hooks}
    found = all_implementations(plugins.manager)
    by_plugin: dict[str, list[Implementation]] = {plugin.name: [] for plugin in plugins.plugins}
    for implementations in found.values():
        for implementation in implementations:
            if implementation.plugin in by_plugin:
                by_plugin[implementation.plugin].append(implementation)
    by_hook: dict[str, list[Implementation]] = {}
    for brought in by_plugin.values():
        for implementation in brought:
            by_hook.setdefault(implementation.hook, []).append(implementation)
    points = {**HOOK_POINTS, **{name: hook.point for name, hook in hooks.items()}}
    return Offers(plan, plugins, found, _frozen(by_plugin), _frozen(by_hook), hooks, points)


def _frozen(groups: Mapping[str, list[Implementation]]) -> Mapping[str, tuple[Implementation, ...]]:
    return {name: tuple(items) for name, items in groups.items()}
