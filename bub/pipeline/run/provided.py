"""What the plugins of a profile provide, and what the profile says of it: tools, commands, channels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from bub.base.diagnostics import Findings, Related, Severity
from bub.base.globs import is_glob
from bub.errors import BubError, HookTypeError
from bub.hooks.binding import Call, bind
from bub.hooks.facts import BUILTIN
from bub.hooks.implementations import Implementation
from bub.hooks.loops import explain
from bub.hookspecs import HOOK_POINTS
from bub.labels import Labels, PluginLabels
from bub.log import log_exception, log_warning
from bub.pipeline.check.rules import schedule_without_channel
from bub.pipeline.check.rules.labels_in_vain import check_tools as check_labels
from bub.pipeline.check.rules.unknown_tool import BY_LOCK, add_unknown_tool, names_without_tool
from bub.pipeline.plan.channels import unknown_channels
from bub.pipeline.plan.offers import Offers
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import names_of, text_of
from bub.pipeline.plan.schedules.schedule import nodes_of
from bub.pipeline.plan.ways.declared import declared_in
from bub.pipeline.source.merge import DEFAULT_PROFILE
from bub.plugins.failures import in_one_line
from bub.plugins.plugin_set import PluginSet
from bub.tools import Tool

HOOK = "provide_tools"

ONE_NAME = "B208"
"""Two plugins bring a tool, or a command, of one name."""

NOT_BROUGHT = "B210"
"""A plugin fails when it is asked for what it brings."""

NO_CHANNEL = "B212"
"""A profile's `channels:` names what no plugin of it brings."""

NOBODYS_CHANNEL = "B218"
"""A condition asks for a channel that no plugin brings."""

ALL, EXCEPT = "all", "!"
"""Every channel that can run, and what is before the name of one that is left out (BEHAVIOURS C3)."""


class BroughtTool(msgspec.Struct, frozen=True):
    """A tool as a profile has it, the `plugin` that brings it, and the labels that this or its package `declared`."""

    tool: Tool
    plugin: str
    declared: Labels | None = None


def provided_tools(plan: Plan, offers: Offers) -> Mapping[str, BroughtTool]:
    """Every tool of the profile by name. What is wrong with them, and with the names in its `tools:`, is found here.

    A plugin that is `optional` and fails is a warning, and the profile runs without its tools.
    """
    tools: dict[str, BroughtTool] = {}
    for implementation, call in _callable(offers):
        try:
            brought = _collect_tools(call)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (code of others: whatever it raises is its failure)
            tell_failure(plan.findings, offers, implementation, "its tools", explain(error, call.plugin))
            continue
        check_labels(plan, call.plugin, (tool.name for tool in brought), plan.findings)
        labels = _labels_said(plan, call.plugin)
        for tool in brought:
            if tool.name not in tools:
                tools[tool.name] = _label(tool, call.plugin, *labels)
            else:
                other = tools[tool.name].plugin
                tell_one_name(plan.findings, offers, f"the tool `{tool.name}`", other, call.plugin)
    _check_names(plan, offers, tools)
    return MappingProxyType(tools)


def tell_failure(
    findings: Findings, offers: Offers, implementation: Implementation, what: str, error: BaseException
) -> None:
    """Find that a plugin failed when it was asked for `what` it brings.

    The log has the traceback, unless the plugin says itself what a person is to do.
    """
    plugin, advice = implementation.plugin, getattr(error, "help", None)
    if isinstance(error, BubError) and advice:
        log_warning("plugin.failed", plugin=plugin, hook=implementation.hook, error=error)
    else:
        log_exception("plugin.failed", error, plugin=plugin, hook=implementation.hook)
    optional = any(one.optional for one in offers.plugins.plugins if one.name == plugin)
    findings.add(
        NOT_BROUGHT,
        f"plugin `{plugin}` does not bring {what}: {in_one_line(error)}",
        offers.place_of(implementation),
        severity="warning" if optional else "error",
        help=advice or "repair the plugin or take it off the list; the traceback is in the log",
    )


def tell_one_name(findings: Findings, offers: Offers, what: str, one: str, other: str) -> None:
    """Find that two plugins bring `what` of one name, at the later one in the profile's list."""
    order = {name: index for index, (name, _) in enumerate(offers.plan.allowlist)}
    first, second = sorted((one, other), key=lambda name: order.get(name, -1))
    if first == second:
        message = f"plugin `{first}` brings {what} twice"
    else:
        message = f"plugins `{first}` and `{second}` both bring {what}"
    place = offers.find_listing(first)
    listed = first != second and first in order
    findings.add(
        ONE_NAME,
        message,
        offers.find_listing(second),
        help=f"take `{second}` off the list, or rename it there" if first == BUILTIN else "take one off the list",
        related=[Related(f"`{first}` is listed here", place.file, place.range)] if listed else (),
    )


def check_channels(
    plan: Plan, plugins: PluginSet, names: Iterable[str], channels: Iterable[str], findings: Findings
) -> None:
    """Find which of the `names` that a profile's `channels:` gives are those of no channel (BEHAVIOURS C3)."""
    node = plan.effective.profile_node.get("channels") if plan.effective.profile_node is not None else None
    places = dict(names_of(node)) if node is not None else {}
    all_there = all(status.state == "loaded" for status in plugins.statuses)
    for said in names:
        name = said.removeprefix(EXCEPT)
        if name == ALL or name in channels:
            continue
        findings.add_unknown(
            NO_CHANNEL,
            f"no plugin of profile `{plan.profile}` brings a channel `{name}`",
            places.get(said) or (node or plan.root).place,
            name,
            channels,
            severity="error" if all_there else "warning",
            path=f"profiles.{plan.profile}.channels",
            profile=plan.profile,
            help="take it out, or list the plugin that brings it",
        )


def check_schedules(plan: Plan, channels: Callable[[], Iterable[str]], findings: Findings) -> None:
    """Find schedules that speak to a channel which no plugin of the profile brings: no gateway can fire them there.

    It is only a note of a profile that a gateway may never be started with.
    """
    if plan.root.get("schedules") is None:
        return
    for name, node in nodes_of(plan.root):
        session = node.get("session")
        channel = (text_of(session) or "").partition(":")[0]
        if session is not None and channel and channel not in channels():
            findings.add(
                schedule_without_channel.CODE,
                f"schedule `{name}` speaks to channel `{channel}`, but no plugin of profile `{plan.profile}` brings it",
                session.place,
                severity="warning" if plan.profile == DEFAULT_PROFILE else "note",
                path=f"schedules.{name}.session",
                profile=plan.profile,
                help="list the plugin that brings it, or switch the schedule off there",
            )


def note_channels(plan: Plan, channels: Callable[[], Iterable[str]], findings: Findings) -> None:
    """Note the channels that stages and routes ask for and that no plugin brings; a program may name its own."""
    for glob, place, path in unknown_channels(plan, channels):
        findings.add(
            NOBODYS_CHANNEL,
            f"no plugin of profile `{plan.profile}` brings a channel that `{glob}` matches",
            place,
            severity="note",
            path=path,
            profile=plan.profile,
            help="a message of such a channel comes from a program, or from `bub run --channel NAME`",
        )


def _labels_said(plan: Plan, plugin: str) -> tuple[PluginLabels | None, PluginLabels | None]:
    """What the file says that the tools of a plugin do, and what its package says."""
    if plugin == BUILTIN or plan.is_shipped(plugin):
        return None, None
    declared = declared_in(plan, plan.root, plugin, plan.root.place)
    return declared.said, declared.brought


def _label(tool: Tool, plugin: str, said: PluginLabels | None, brought: PluginLabels | None) -> BroughtTool:
    """A tool with its labels: those that the file says, else its own, else those that its package brings."""
    declared = tool.labels
    if declared is None and brought is not None:
        declared = brought.of_tool(tool.name)
    found = (said.of_tool(tool.name) if said is not None else None) or declared
    return BroughtTool(tool if found is tool.labels else replace(tool, labels=found), plugin, declared)


def _callable(offers: Offers) -> Iterator[tuple[Implementation, Call]]:
    """Who can be asked, highest priority first; those who cannot be are found by rules of their own."""
    point = HOOK_POINTS[HOOK]
    for implementation in sorted(offers.by_hook.get(HOOK, ()), key=lambda one: one.rank):
        if not (implementation.wrapper or implementation.required or implementation.is_async):
            yield implementation, bind([implementation], point, {}, skip_awaitables=True).items[0]


def _collect_tools(call: Call) -> list[Tool]:
    answer = call.function()
    brought = list(call.check(answer)) if answer is not None else []
    for tool in brought:
        if not isinstance(tool, Tool):
            raise HookTypeError(call.hook, call.plugin, "a list of what `@bub.tool` makes", tool)
    return brought


def _check_names(plan: Plan, offers: Offers, tools: Iterable[str]) -> None:
    """Find what the profile itself says of tools that nobody brings; what it inherits, its base answers for."""
    # What is missing may be in a plugin that did not load, or that did not bring its tools: told once already.
    found = (*offers.plugins.findings, *(item for item in plan.findings.items if item.code == NOT_BROUGHT))
    if any(finding.severity == "error" for finding in found):
        return
    all_there = not found and all(status.state == "loaded" for status in offers.plugins.statuses)
    known = tuple(tools)
    for key, name, place in names_without_tool(plan, known):
        if plan.findings.speaks_of(place, BY_LOCK):
            continue
        severity: Severity = "error" if all_there and not is_glob(name) else "warning"
        add_unknown_tool(plan, key, name, place, known, severity)
