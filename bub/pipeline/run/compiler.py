"""From a document to a graph: everything is checked, and what fits together is made ready to run."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from bub.base.diagnostics import Diagnostic, Findings, PipelineError
from bub.hooks.kinds.runnable import RunnableKind
from bub.hooks.kinds.table import RUNNABLE_KINDS
from bub.pipeline.check.outline import outline_of
from bub.pipeline.check.rules import (
    answer_unheeded,
    argument_nobody_gives,
    async_where_nothing_waits,
    both_twins,
    denial_in_vain,
    empty_plugin,
    hook_that_yields,
    hook_wrapper,
    item_without_field,
    misspelt_argument,
    never_asked,
    never_called,
    nothing_implements,
    only_leaves_out,
    other_loop,
    plain_function_in_time,
    point_nobody_fires,
    session_never_met,
    thread_in_vain,
    unknown_argument,
    unknown_implementation,
    unmarked_hook,
)
from bub.pipeline.check.schema import check_layer
from bub.pipeline.check.validate import ProfileChecker, check_document, check_outline, declared_plugins
from bub.pipeline.plan.offers import Offers, offers_of
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import flag_of
from bub.pipeline.run.graph import Graph
from bub.pipeline.run.layout import GraphLayout, Recast, StandIn, as_they_are
from bub.pipeline.run.provided import provided_tools
from bub.pipeline.source.document import Node
from bub.pipeline.source.interpolate import UNSET, lone_reference, resolve
from bub.pipeline.source.merge import Document
from bub.pipeline.source.profiles import effective
from bub.plugins.lock.facts import Lock
from bub.plugins.plugin_set import PluginSet

RESOLVED = ("stages", "hooks", "plugins", "routes", "schedules", "on_failure")
"""The sections whose references are resolved for a run; settings are, when they are asked for."""

_TYPED = ("enabled", "thread", "optional", "times")
"""The keys whose value is no text, so that a reference alone has to be read as one."""

TOOLS = "tools"
"""The key of a profile that says which tools it may use."""

VERSION = "version"
"""The key without which nothing is a pipeline file."""

_LIMITS = ("budget", "channels", "reach", "approvers")
"""The keys of a profile beside `TOOLS` whose references are replaced for a run, by whoever needs them."""

PLUGIN_RULES: tuple[Callable[[Plan, Offers], None], ...] = (
    unknown_implementation.check,
    unknown_argument.check,
    misspelt_argument.check,
    async_where_nothing_waits.check,
    nothing_implements.check,
    only_leaves_out.check,
    point_nobody_fires.check,
    both_twins.check,
    hook_wrapper.check,
    empty_plugin.check,
    unmarked_hook.check,
    never_called.check,
    plain_function_in_time.check,
    thread_in_vain.check,
    argument_nobody_gives.check,
    hook_that_yields.check,
    denial_in_vain.check,
    answer_unheeded.check,
    never_asked.check,
    item_without_field.check,
    session_never_met.check,
    other_loop.check,
)
"""The rules that need the profile's plugins loaded (DESIGN §4, second list)."""

__all__ = ["Recast", "StandIn", "as_they_are", "compile", "declared_plugins", "plan_for"]


def plan_for(document: Document, profile: str, environment: Mapping[str, str]) -> Plan:
    """The plan of a profile with every check that needs no plugin, references resolved in `environment`."""
    return Planner(document, environment).plan_for(profile)


class Planner:
    """Makes the plans of a document's profiles; what is so whatever the profile is, is found once for all of them.

    If the file is to run `elsewhere`, a variable that is not set here is noted, and its reference is left as it is.
    With a `lock`, what the profiles name is held against that.
    """

    def __init__(
        self,
        document: Document,
        environment: Mapping[str, str],
        *,
        elsewhere: bool = False,
        lock: Lock | None = None,
    ) -> None:
        self._document, self._environment, self._elsewhere = document, environment, elsewhere
        self._checker = ProfileChecker(outline_of(document), lock)
        references = _References(document, environment, elsewhere)
        self._sections = references.resolve_sections(document.root, {})
        self._findings = [*check_document(document), *check_outline(self._checker.outline), *references.findings]

    def plan_for(self, profile: str) -> Plan:
        """The plan of a profile with every check that needs no plugin, references resolved."""
        document = self._document
        references = _References(document, self._environment, self._elsewhere)
        view = effective(document, profile)
        # What the profile lays nothing over is the document's own.
        known = {name: node for name, node in self._sections.items() if view.root.get(name) is document.root.get(name)}
        sections = {**dict(view.root.items()), **known, **references.resolve_sections(view.root, known)}
        root = replace(view.root, value={name: node for name, node in sections.items() if node is not None})
        tools = view.profile_node.get(TOOLS) if view.profile_node is not None else None
        tools = references.resolve(tools, (TOOLS,)) if tools is not None else None
        for key, said in view.profile_node.items() if view.profile_node is not None else ():
            if key in _LIMITS:
                references.resolve(said, (key,))
        return self._checker.plan_for(profile, root, tools, view, [*self._findings, *references.findings])


def compile(  # noqa: A001 (the design's word, and what it does)
    plan: Plan,
    plugins: PluginSet,
    stand_ins: Mapping[str, StandIn] = MappingProxyType({}),
    kinds: Mapping[str, RunnableKind] = RUNNABLE_KINDS,
    recast: Recast = as_they_are,
) -> Graph:
    """Prove that a pipeline fits together with the plugins of its profile, and make it ready to run.

    What is proved is proved of the plugins; in the graph, `stand_ins` answer at the stages and hook points they are
    named for, and `recast` makes others of the rest. `kinds` are those that stages and hook points may be of. Raises
    `PipelineError` with every finding there is when one of them is an error (DESIGN §4). Changes nothing it is given,
    and the graph holds no part of the document.
    """
    # What is wrong in the file itself is said there already; a plugin finding at the same place follows from it.
    plan = replace(plan, findings=Findings([*plan.findings.items]))
    said = {(finding.file, finding.range) for finding in plan.findings.items if finding.severity == "error"}
    plan.findings.items += [finding for finding in plugins.findings if (finding.file, finding.range) not in said]
    offers = offers_of(plan, plugins)
    for rule in PLUGIN_RULES:
        rule(plan, offers)
    tools = provided_tools(plan, offers)
    if plan.findings.has_errors:
        raise PipelineError(plan.findings.items)
    return GraphLayout(plan, offers.found, stand_ins, kinds, tools, recast).build()


class _References(msgspec.Struct):
    """Replaces the references of a document for a run, and notes what is wrong with them."""

    document: Document
    environment: Mapping[str, str]
    elsewhere: bool = False
    findings: list[Diagnostic] = msgspec.field(default_factory=list)

    def resolve_sections(self, root: Node, known: Container[str]) -> dict[str, Node | None]:
        """The `RESOLVED` sections that are not `known` with their references replaced; that is checked like a file."""
        before = {name: node for name, node in root.items() if name in RESOLVED and name not in known}
        sections = {name: self.resolve(node, (name,)) for name, node in before.items()}
        changed = {name: node for name, node in sections.items() if node is not before[name]}
        if any(node is None or node.plain() != before[name].plain() for name, node in changed.items()):
            version = {name: node for name, node in root.items() if name == VERSION}
            there = {name: node for name, node in changed.items() if node is not None}
            self.findings += check_layer(replace(root, value={**version, **there}))
        return sections

    def resolve(self, node: Node, path: tuple[str, ...], *, needed: bool = True) -> Node | None:
        """A node with its references replaced; None where it is only one that stands for nothing.

        That is an error if it is `needed`: the pipeline would be another one than the one that was written.
        """
        if node.is_mapping:
            needed = needed and flag_of(node.get("enabled")) is not False
            children = {
                key: self.resolve(child, (*path, key), needed=needed and key != "description")
                for key, child in node.items()
            }
            if all(children[key] is child for key, child in node.items()):
                return node
            return replace(node, value={key: child for key, child in children.items() if child is not None})
        if node.is_sequence:
            items = [self.resolve(child, path, needed=needed) for child in node.elements()]
            if all(item is child for item, child in zip(items, node.elements(), strict=True)):
                return node
            return replace(node, value=tuple(item for item in items if item is not None))
        if not isinstance(node.value, str) or "$" not in node.value:
            return node
        typed = path[-1] in _TYPED and lone_reference(node.value) is not None
        base, folders = self.document.base, self.document.folders
        value, found = resolve(node, self.environment, base=base, folders=folders, typed=typed)
        is_unset = any(one.code == UNSET for one in found)
        if is_unset and self.elsewhere:
            self.findings += [replace(one, severity="note") for one in found]
            return node
        self.findings += [replace(one, severity="error") for one in found] if needed else found
        return None if value is None else replace(node, value=value, quoted=True)
