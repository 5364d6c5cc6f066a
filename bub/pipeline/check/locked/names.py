"""The tools and hooks that a file names are those that its locked plugins and servers bring."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bub.base.diagnostics import Place
from bub.base.globs import is_glob
from bub.hookspecs import HOOK_POINTS
from bub.pipeline.check.cases import Case
from bub.pipeline.check.locked.stale import STALE, check_stale, servers_of
from bub.pipeline.check.rules import hook_entry_in_vain, unknown_tool
from bub.pipeline.plan.callers import is_called_in_a_profile
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import mappings_in
from bub.plugins.lock.facts import Lock, PluginFacts
from bub.plugins.shipped import SHIPPED_TOOLS

_TAKE_OUT = "take it out; if a plugin brings it now, make the lock again with `bub lock`"


def check_locked(plan: Plan, cases: Iterable[Case], lock: Lock) -> None:
    """Find what a profile and its tests name that its lock does not have.

    If a plugin or a server is not as it was locked, what it brings is not known, and the finding says only that.
    """
    check_stale(plan, lock)
    if any(item.code == STALE for item in plan.findings.items):
        return
    tools = tools_of(plan, lock)
    for key, name, place in unknown_tool.names_without_tool(plan, tools, served=True):
        _tell_tool(plan, name, place, tools, f"profiles.{plan.profile}.tools.{key}")
    for plugin in _plugins_of(plan, lock):
        for name, node in mappings_in(plan.root.get("plugins", plugin.name, "labels", "tools")):
            if name not in plugin.tools:
                path = f"plugins.{plugin.name}.labels.tools.{name}"
                _tell_tool(plan, name, node.where, frozenset(plugin.tools), path)
    for case in cases:
        for name, mock in case.mocked_tools():
            if name not in tools:
                _tell_tool(plan, name, mock.where, tools, f"{case.path}.mock_tools.{name}")
    _check_hooks(plan, lock)


def tools_of(plan: Plan, lock: Lock) -> frozenset[str]:
    """Return the names of all tools that a profile has by its lock; those of its servers as a file names them."""
    brought = (name for plugin in _plugins_of(plan, lock) for name in plugin.tools)
    servers = (lock.server(name, plan.profile) for name, _ in servers_of(plan))
    served = (f"mcp.{server.name}.{tool}" for server in servers if server is not None for tool in server.tools)
    return frozenset((*SHIPPED_TOOLS, *brought, *served))


def _tell_tool(plan: Plan, name: str, place: Place, tools: frozenset[str], path: str) -> None:
    if plan.findings.speaks_of(place, unknown_tool.CODE):  # a slip for a tool of Bub's own
        return
    plan.findings.add_unknown(
        unknown_tool.BY_LOCK,
        f"according to the lock, no plugin or server of profile `{plan.profile}` brings a tool `{name}`",
        place,
        name,
        tools,
        severity="warning" if is_glob(name) else "error",
        path=path,
        profile=plan.profile,
        help=_TAKE_OUT,
    )


def _check_hooks(plan: Plan, lock: Lock) -> None:
    """Find gates that would let everything pass, and hooks of the pipeline's own that would do nothing."""
    brought = {hook for plugin in _plugins_of(plan, lock) for hook in plugin.hooks}
    known = {name for name, point in HOOK_POINTS.items() if not point.bootstrap} | set(plan.hooks)
    misspelt = brought - known - {stage.hook.point.name for stage in plan.stages} - set(HOOK_POINTS)
    told = set()
    for stage in plan.stages:
        name = stage.hook.point.name
        is_needed = stage.enabled and stage.kind is not None and (stage.kind.name == "gate" or not stage.hook.known)
        if is_needed and name not in brought and (stage.hook.known or name in plan.hooks):
            told.add(name)
            _tell_hook(plan, f"{stage} calls `{name}`", name, stage.where, f"stages.{stage.id}", misspelt)
    for name, hook in plan.hooks.items():
        if hook.known or hook.node is None or name in brought or name in told or is_called_in_a_profile(plan, name):
            continue
        if not plan.findings.speaks_of(hook.node.where, hook_entry_in_vain.CODE):
            _tell_hook(plan, f"hook `{name}` is declared", name, hook.node.where, f"hooks.{name}", misspelt)


def _tell_hook(plan: Plan, what: str, name: str, place: Place, path: str, misspelt: set[str]) -> None:
    meant = plan.findings.suggest(name, misspelt)
    plugin = f"a plugin implements `{meant}`, which is no hook: did you mean that?" if meant else None
    plan.findings.add(
        hook_entry_in_vain.BY_LOCK,
        f"{what}, but according to the lock, no plugin of profile `{plan.profile}` implements it",
        place,
        path=path,
        profile=plan.profile,
        help=plugin or f"list a plugin with `{name}`, or switch `{name}` off; make the lock again with `bub lock`",
    )


def _plugins_of(plan: Plan, lock: Lock) -> Iterator[PluginFacts]:
    for name, _ in plan.allowlist:
        found = lock.plugin(name, plan.profile)
        if found is not None:
            yield found
