"""Every implementation fits its hook point, and nothing that must be implemented is missing (B201-B209)."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path

from bub.diagnostics import Place, Position, Range, suggest
from bub.hookspecs import HOOK_POINTS
from bub.implementations import Implementation, implementations_of
from bub.pipeline.document import Node
from bub.pipeline.plan import HookPlan, Plan, names_of
from bub.plugins import BUILTIN, LoadedPlugin, PluginSet


def check(plan: Plan, plugins: PluginSet) -> None:
    """Find what can only be known with the profile's plugins loaded (DESIGN §4, second list)."""
    hooks = hooks_of(plan)
    by_plugin = {plugin.name: _implementations(plugins, plugin) for plugin in plugins.plugins}
    for plugin in plugins.plugins:
        found = by_plugin[plugin.name]
        if not found and plugin.name != BUILTIN:
            _report_empty(plan, plugin)
        for implementation in found:
            _check_one(plan, implementation, hooks)
        _check_twins(plan, plugin.name, {implementation.hook: implementation for implementation in found})
    implemented = _by_hook(by_plugin.values())
    known = _known(hooks)
    # What is missing may be in a plugin that did not load, or under a name that is misspelt: told once already.
    if not any(finding.severity == "error" for finding in plugins.findings):
        _check_implemented(plan, implemented, {suggest(name, known) for name in implemented if name not in known})


def hooks_of(plan: Plan) -> dict[str, HookPlan]:
    """Every hook point that this pipeline knows: those it declares and those its stages call."""
    return {**{stage.hook.point.name: stage.hook for stage in plan.stages}, **plan.hooks}


def _known(hooks: Mapping[str, HookPlan]) -> set[str]:
    return {*HOOK_POINTS, *hooks}


def _implementations(plugins: PluginSet, plugin: LoadedPlugin) -> list[Implementation]:
    callers = plugins.manager.get_hookcallers(plugin.plugin) or []
    return [
        implementation
        for caller in callers
        for implementation in implementations_of(plugins.manager, caller.name)
        if implementation.plugin == plugin.name
    ]


def _by_hook(found: Iterable[list[Implementation]]) -> dict[str, list[Implementation]]:
    hooks: dict[str, list[Implementation]] = {}
    for implementations in found:
        for implementation in implementations:
            hooks.setdefault(implementation.hook, []).append(implementation)
    return hooks


def _check_one(plan: Plan, implementation: Implementation, hooks: Mapping[str, HookPlan]) -> None:
    name = implementation.hook
    who = f"plugin `{implementation.plugin}`"
    place = place_of(plan, implementation)
    hook = hooks.get(name)
    known = HOOK_POINTS.get(name)
    if implementation.wrapper:
        plan.findings.add(
            "B206",
            f"{who} implements `{name}` as a wrapper, which Bub does not have",
            place,
            help="write it as a plain function; a stage of its own can run before or after another",
        )
        return
    if hook is None and known is None:
        plan.findings.add(
            "B201",
            f"{who} implements `{name}`, which is no hook",
            place,
            help=plan.findings.did_you_mean(name, _known(hooks)) or f"declare it under `hooks:`, or rename `{name}`",
        )
        return
    point = hook.point if hook is not None else known
    assert point is not None
    offered = hook.takes if hook is not None else point.takes
    for argument in implementation.required:
        if argument not in offered:
            narrowed = f"; this pipeline narrows it to {', '.join(offered)}" if hook and hook.narrowed else ""
            plan.findings.add(
                "B202",
                f"{who} asks `{name}` for `{argument}`, which that hook does not have{narrowed}",
                place,
                help=plan.findings.did_you_mean(argument, offered) or f"it has: {', '.join(offered)}",
            )
    if point.sync_only and inspect.iscoroutinefunction(implementation.function):
        plan.findings.add(
            "B203",
            f"{who} implements `{name}` as `async def`, but it is called where nothing can be awaited",
            place,
            help="write it as a plain `def`",
        )
    twin = point.twin
    called = hook is not None or (twin is not None and twin in hooks)
    # A sync-only point of the turn is one that the framework calls by itself where no stage does.
    # Nobody listed `builtin`, so nobody expects all of it to be used.
    if not called and not point.bootstrap and not point.sync_only and implementation.plugin != BUILTIN:
        message = f"{who} implements `{name}`, which this pipeline never calls"
        advice = "use a pipeline that has it, or declare it: a stage, or an entry under `hooks:`"
        if "gate" in point.kinds:
            plan.findings.add("B209", f"{message}, so it guards nothing", place, help=advice)
        else:
            plan.findings.warn("B209", message, place, help=advice)


def _check_twins(plan: Plan, plugin: str, found: Mapping[str, Implementation]) -> None:
    for name, implementation in found.items():
        point = HOOK_POINTS.get(name)
        if point is not None and point.twin is not None and point.twin in found and name < point.twin:
            plan.findings.add(
                "B205",
                f"plugin `{plugin}` implements both `{name}` and `{point.twin}`, which answer the same question",
                place_of(plan, implementation),
                help=f"keep `{point.twin}`",
            )


def _check_implemented(plan: Plan, found: Mapping[str, list[Implementation]], misspelt: set[str | None]) -> None:
    for stage in plan.stages:
        if not stage.enabled or stage.kind is None or (stage.hook.known and stage.kind.name != "gate"):
            continue
        name = stage.hook.point.name
        if name in misspelt or not (stage.hook.known or name in plan.hooks):
            continue
        only = {plugin for plugin, _ in names_of(stage.node.get("only") or _hook_only(stage.hook))}
        asked = [implementation for implementation in found.get(name, ()) if not only or implementation.plugin in only]
        if asked:
            continue
        what = "is a gate that" if stage.kind.name == "gate" else "calls a hook that"
        plan.findings.add(
            "B204",
            f"{stage} {what} no plugin of profile `{plan.profile}` implements",
            stage.where,
            path=f"stages.{stage.id}",
            profile=plan.profile,
            help=f"add a plugin with `{name}` to the profile's `plugins`, or switch the stage off",
        )
    called = {stage.hook.point.name for stage in plan.stages}
    for name, hook in plan.hooks.items():
        if not hook.known and hook.node is not None and name not in {*called, *found, *misspelt}:
            plan.findings.add(
                "B204",
                f"hook `{name}` is declared here, but no plugin of profile `{plan.profile}` implements it",
                hook.node.where,
                path=f"hooks.{name}",
                profile=plan.profile,
                help=f"add a plugin with `{name}` to the profile's `plugins`, or take the entry out",
            )


def _hook_only(hook: HookPlan) -> Node | None:
    return hook.node.get("only") if hook.node is not None else None


def _report_empty(plan: Plan, plugin: LoadedPlugin) -> None:
    place = next((place for name, place in plan.allowlist if name == plugin.name), plan.root.place)
    plan.findings.add(
        "B207",
        f"plugin `{plugin.name}` ({plugin.source}) implements no hook",
        place,
        path=f"profiles.{plan.profile}.plugins",
        help="mark its functions with `@bub.hookimpl`, name a class of the file with `plugin = ITS_NAME`,"
        " or take it off the list",
    )


def place_of(plan: Plan, implementation: Implementation) -> Place:
    """Where an implementation is written; the profile's list where Python does not know."""
    source = implementation.source
    if source is not None:
        file, line = source
        shown = Path(file)
        base = plan.document.base
        if base is not None and shown.is_relative_to(base.resolve()):
            shown = shown.relative_to(base.resolve())
        return Place(str(shown), Range(Position(line, 1), Position(line, 1)))
    return next((place for name, place in plan.allowlist if name == implementation.plugin), plan.root.place)
