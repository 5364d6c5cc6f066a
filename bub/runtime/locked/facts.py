"""What the plugins of a loaded profile bring, as a lock keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bub.hooks.implementations import all_implementations
from bub.pipeline.check.locked.stale import source_of_file
from bub.pipeline.plan.ways.declared import declared_in
from bub.plugins.lock.facts import PluginFacts, ToolFacts, describe_tool, in_words
from bub.runtime.snapshot import Profile
from bub.tools import Tool


def facts_of(profile: Profile, channels: Iterable[tuple[str, str]] = ()) -> Mapping[str, PluginFacts]:
    """Note of each plugin that a profile lists and that is loaded, by name, what a lock keeps.

    `channels` are names of channels, each behind the plugin that brings it. The package of one without a file is not
    known here.
    """
    plan = profile.plan
    found = {}
    for one in profile.plugins.plugins[1:]:  # the first is Bub's own
        plugin = source_of_file(plan, one.name) or PluginFacts(one.name, (profile.name,))
        declared = declared_in(plan, plan.root, one.name, plan.root.place).brought
        brought = {
            name: declared.of_channel(name) if declared else None for owner, name in channels if owner == one.name
        }
        found[one.name] = PluginFacts(
            one.name,
            (profile.name,),
            file=plugin.file,
            sha256=plugin.sha256,
            hooks=_hooks_of(profile, one.name),
            channels={name: in_words(labels) for name, labels in sorted(brought.items())},
            tools=_tools_of(profile, one.name),
        )
    return found


def _hooks_of(profile: Profile, plugin: str) -> tuple[str, ...]:
    every = all_implementations(profile.plugins.manager)
    return tuple(sorted(hook for hook, found in every.items() if any(one.plugin == plugin for one in found)))


def _tools_of(profile: Profile, plugin: str) -> Mapping[str, ToolFacts]:
    return {
        name: describe_tool(
            one.tool.description, one.tool.parameters, labels=one.declared, traits=tuple(_traits_of(one.tool))
        )
        for name, one in sorted(profile.graph.brought.items())
        if one.plugin == plugin
    }


def _traits_of(tool: Tool) -> Iterable[str]:
    """What a tool says of itself that its schema does not, and that decides who may call it, or how."""
    yield from (name for name in ("read_only", "for_people", "once") if getattr(tool, name))
    yield from (f"counts as {name}" for name in tool.counts_as)
    if tool.path is not None:
        yield f"file {tool.path}"
    if tool.command is not None:
        yield f"command {tool.command}"
