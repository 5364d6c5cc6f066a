"""From a document to a graph: everything is checked, and what fits together is made ready to run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

from bub.binding import Calls, Manner, bind, in_words
from bub.calling import broadcast, claiming, firstresult, gate, modifying, observer, stream, void
from bub.diagnostics import Diagnostic, PipelineError
from bub.hookspecs import ERROR_POINT, HOOK_POINTS, HookPoint
from bub.implementations import Implementation, implementations_of, in_call_order
from bub.kinds import KINDS, SESSION, START_VALUES
from bub.pipeline.document import Node
from bub.pipeline.graph import Chain, FiredPoint, Graph, GraphNode, SideBySide, Step, When, template
from bub.pipeline.interpolate import lone_reference, resolve
from bub.pipeline.merge import Document, effective
from bub.pipeline.offers import Offers, offers_of
from bub.pipeline.plan import HookPlan, Plan, StagePlan, flag_of, make_plan, names_of, policy_of, seconds_of, text_of
from bub.pipeline.provided import provided_tools
from bub.pipeline.rules import (
    async_where_nothing_waits,
    both_twins,
    empty_plugin,
    hook_wrapper,
    never_called,
    nothing_implements,
    unknown_argument,
    unknown_implementation,
)
from bub.pipeline.schema import check_layer
from bub.pipeline.validate import check_document, check_plan, declared_plugins
from bub.plugins import PluginSet
from bub.tools import Tool

RESOLVED = ("stages", "hooks", "plugins", "routes", "on_failure")
"""The sections whose references are resolved for a run; settings are, when they are asked for."""

_TYPED = ("enabled", "thread", "optional", "times")
"""The keys whose value is no text, so that a reference alone has to be read as one."""

TOOLS = "tools"
"""The key of a profile that says which tools it may use."""

_FOR_WHOM = ("when", "only")
"""The keys of a stage or a hook that say whom it is for."""

COMBINED = {"merge": (dict,), "join": (str,)}
"""What an implementation has to return beside None where the point itself does not say."""

CALLING = {
    "firstresult": firstresult,
    "broadcast": broadcast,
    "observer": observer,
    "void": void,
    "modifying": modifying,
    "claiming": claiming,
    "gate": gate,
}
"""The function of each kind; a stream takes more than the others, and the engine calls it by itself."""

PLUGIN_RULES: tuple[Callable[[Plan, Offers], None], ...] = (
    unknown_implementation.check,
    unknown_argument.check,
    async_where_nothing_waits.check,
    nothing_implements.check,
    both_twins.check,
    hook_wrapper.check,
    empty_plugin.check,
    never_called.check,
)
"""The rules that need the profile's plugins loaded (DESIGN §4, second list)."""

StandIn: TypeAlias = Callable[[HookPoint], Implementation]
"""Makes the one implementation that answers at a point in place of all those that the plugins bring."""

__all__ = ["compile", "declared_plugins", "plan_for"]


def plan_for(document: Document, profile: str, environment: Mapping[str, str]) -> Plan:
    """The plan of a profile with every check that needs no plugin, references resolved in `environment`."""
    view = effective(document, profile)
    references = _References(document, environment)
    root = references.replaced_in(view.root)
    tools = view.profile_node.get(TOOLS) if view.profile_node is not None else None
    plan = make_plan(document, profile, root, references.replaced(tools, (TOOLS,)) if tools is not None else None)
    plan.findings.items += [*check_document(document), *references.findings]
    check_plan(plan)
    return plan


def compile(  # noqa: A001 (the design's word, and what it does)
    plan: Plan, plugins: PluginSet, stand_ins: Mapping[str, StandIn] = MappingProxyType({})
) -> Graph:
    """Prove that a pipeline fits together with the plugins of its profile, and make it ready to run.

    What is proved is proved of the plugins; in the graph, `stand_ins` answer at the stages and hook points they are
    named for. Raises `PipelineError` with every finding there is when one of them is an error (DESIGN §4). Warnings
    stay in the graph's plan.
    """
    # What is wrong in the file itself is said there already; a plugin finding at the same place follows from it.
    said = {(finding.file, finding.range) for finding in plan.findings.items if finding.severity == "error"}
    plan.findings.items += [finding for finding in plugins.findings if (finding.file, finding.range) not in said]
    offers = offers_of(plan, plugins)
    for rule in PLUGIN_RULES:
        rule(plan, offers)
    tools = provided_tools(plan, offers)
    if plan.findings.has_errors:
        raise PipelineError(plan.findings.items)
    return _Builder(plan, plugins, stand_ins, tools).build()


@dataclass(slots=True)
class _References:
    """Replaces the references of a document for a run, and notes what is wrong with them."""

    document: Document
    environment: Mapping[str, str]
    findings: list[Diagnostic] = field(default_factory=list)

    def replaced_in(self, root: Node) -> Node:
        """The root with the references of its `RESOLVED` sections replaced; what they gave is checked like a file."""
        sections = {name: self.replaced(node, (name,)) if name in RESOLVED else node for name, node in root.items()}
        result = replace(root, value={name: node for name, node in sections.items() if node is not None})
        if result.plain() != root.plain():
            self.findings += check_layer(result)
        return result

    def replaced(self, node: Node, path: tuple[str, ...]) -> Node | None:
        """A node with its references replaced; None where it is only one that stands for nothing.

        That is an error in what says whom something is for: without a part of it, a guard would be for others.
        """
        if node.is_mapping:
            children = {key: self.replaced(child, (*path, key)) for key, child in node.items()}
            return replace(node, value={key: child for key, child in children.items() if child is not None})
        if node.is_sequence:
            items = (self.replaced(child, path) for child in node.elements())
            return replace(node, value=tuple(item for item in items if item is not None))
        if not isinstance(node.value, str) or "$" not in node.value:
            return node
        typed = path[-1] in _TYPED and lone_reference(node.value) is not None
        base, folders = self.document.base, self.document.folders
        value, found = resolve(node, self.environment, base=base, folders=folders, typed=typed)
        self.findings += [replace(one, severity="error") for one in found] if _says_for_whom(path) else found
        return None if value is None else replace(node, value=value, quoted=True)


def _says_for_whom(path: tuple[str, ...]) -> bool:
    """Whether what stands at a path says whom a stage or a hook is for, or which tools may be used."""
    return path[0] == TOOLS or (path[0] in ("stages", "hooks") and len(path) > 2 and path[2] in _FOR_WHOM)


@dataclass(slots=True)
class _Builder:
    """Lays out the slots of a turn and binds every implementation to them.

    Each version of a value has a slot of its own, so a stage reads the version that was made above it whatever
    runs beside it. `current` is where each value stands for the stage that is being laid out.
    """

    plan: Plan
    plugins: PluginSet
    stand_ins: Mapping[str, StandIn]
    tools: Mapping[str, Tool]
    slots: int = 0
    current: dict[str, int] = field(default_factory=dict)
    nothing: int = 0

    def build(self) -> Graph:
        self.nothing = self._slot()
        start = {name: self._slot() for name in START_VALUES if name != "fire"}
        self.current = dict(start)
        nodes: list[GraphNode] = []
        index_of: dict[str, int] = {}
        waits: list[set[int]] = []
        pending = list(self.plan.stages)
        while pending:
            each = pending[0].each
            group = [pending.pop(0)]
            while each is not None and pending and pending[0].each == each:
                group.append(pending.pop(0))
            waits.append({index_of[name] for stage in group for name in self.plan.waits_for(stage) if name in index_of})
            index_of.update({stage.id: len(nodes) for stage in group})
            nodes.append(self._node(group, each))
        steps = [step for node in nodes for step in node.steps]
        return Graph(
            profile=self.plan.profile,
            nodes=tuple(nodes),
            parts=_parts(nodes, _groups(waits)),
            waits=tuple(frozenset(wait) for wait in waits),
            cleanups=tuple(step for step in steps if step.cleanup_for is not None and step.enabled),
            slots=self.slots,
            start=MappingProxyType(start),
            values=MappingProxyType(dict(self.current)),
            fired=MappingProxyType(self._fired()),
            observers=self._observers(),
            nothing=self.nothing,
            bootstrap=MappingProxyType(
                {name: self._found(point) for name, point in HOOK_POINTS.items() if point.bootstrap}
            ),
            plan=self.plan,
            tools=self.tools,
        )

    def _slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def _node(self, group: list[StagePlan], each: str | None) -> GraphNode:
        if each is None:
            return GraphNode((self._step(group[0], self.current),))
        items, item, kept = self.current.get(each, self.nothing), self._slot(), self._slot()
        sources = {**self.current, "message": item}
        steps = tuple(self._step(stage, sources) for stage in group)
        self.current = {**sources, "message": self.current["message"], each: kept}
        idle = not any(step.calls.items or step.into is not None for step in steps)
        return GraphNode(steps, each, items, item, kept, idle)

    def _step(self, stage: StagePlan, sources: dict[str, int]) -> Step:
        """Bind one stage to what it can see, and note in `sources` where the values it makes will stand."""
        assert stage.kind is not None
        seen = dict(sources)
        node, kind = stage.node, stage.kind.name
        only = node.get("only") or _hook_key(stage.hook, "only")
        found = self._asked(stage.hook.point, only, stage.id)
        fire = self._slot() if any(_names(implementation, "fire") for implementation in found) else None
        keys = {name: seen[name] for name in stage.hook.takes if name in seen}
        offered = MappingProxyType(dict(keys))
        if fire is not None and "fire" in stage.hook.takes:
            keys["fire"] = fire
        manner = self._manner(stage.hook, node, kind, stage.id, stage.on_failure)
        twin = _twin(stage.hook.point)
        streams = kind == "stream" or twin is not None
        point = stage.hook.point
        if point.returns is None and kind == "broadcast":
            # What is combined must be of the type that can be.
            point = replace(point, returns=COMBINED.get(text_of(node.get("combine")) or ""))
        calls = bind(
            found,
            point,
            keys,
            manner=replace(manner, retries=0) if streams else manner,
            twin=twin,
            absent=self.nothing,
            skip_awaitables=True,
        )
        if streams and kind == "firstresult":
            # Whatever a text model says is taken at its word (BEHAVIOURS T15); a stage that streams is strict (H29).
            calls = replace(calls, items=tuple(in_words(call) if call.form == "text" else call for call in calls.items))
        waits = any(implementation.is_async for implementation in found) or manner.thread or manner.retries > 0
        into = text_of(node.get("into"))
        slot = self._made(into, sources) if into is not None else None
        joins = self._made("message", sources) if into == SESSION else None
        changes = tuple(
            (name, seen.get(name, self.nothing), self._changed(name, stage, sources))
            for name, _ in names_of(node.get("changes"))
        )
        default = node.get("default")
        when = node.get("when")
        timeout = _timeout(stage.hook, node)
        has_cleanup = any(other.cleanup_for == stage.id for other in self.plan.stages)
        makes_message = into == "message" and stage.each is None
        return Step(
            id=stage.id,
            hook=stage.hook.point.name,
            kind="stream" if streams else kind,
            calls=calls,
            manner=manner,
            sources=MappingProxyType(seen),
            offered=offered,
            allowed=self._allowed(only),
            message=seen["message"],
            call=CALLING.get(kind, stream),
            into=slot,
            changes=changes,
            fire=fire,
            combine=(text_of(node.get("combine")) or "list") if kind == "broadcast" and into is not None else None,
            default=template(default.plain(), seen, seen["message"])
            if default is not None and default.value is not None
            else None,
            falsy=text_of(node.get("default_if")) == "falsy",
            when=When.of({name: str(glob.value) for name, glob in when.items()}) if when is not None else None,
            enabled=stage.enabled,
            timeout=timeout,
            on_failure=stage.on_failure,
            waits=waits,
            cleanup_for=stage.cleanup_for,
            has_cleanup=has_cleanup,
            guarded=not stage.enabled or when is not None or has_cleanup or fire is not None,
            direct=not streams and timeout is None and stage.cleanup_for is None,
            marks=makes_message or joins is not None,
            joins=joins,
            tells=kind == "stream",
        )

    def _made(self, name: str, sources: dict[str, int]) -> int:
        sources[name] = self._slot()
        return sources[name]

    def _changed(self, name: str, stage: StagePlan, sources: dict[str, int]) -> int:
        # The item of a list is one slot that each of its stages may set anew; the list itself is kept apart.
        if stage.each is not None and name == "message":
            return sources["message"]
        return self._made(name, sources)

    def _manner(self, hook: HookPlan, node: Node, kind: str, who: str, on_failure: str) -> Manner:
        thread = flag_of(node.get("thread"))
        if thread is None and hook.node is not None:
            thread = flag_of(hook.node.get("thread"))
        times = node.get("retry", "times")
        retries = int(times.value) if times is not None and isinstance(times.value, int) else 0
        backoff = seconds_of(node.get("retry", "backoff")) or 0.0
        return Manner(kind in ("modifying", "gate"), thread is True, retries, backoff, who, on_failure)

    def _asked(self, point: HookPoint, only: Node | None = None, stage: str = "") -> tuple[Implementation, ...]:
        """Who answers at a point, for a stage or for whoever fires it: the `only` ones of those who are found."""
        for name in (stage, point.name, point.twin or ""):
            if name in self.stand_ins:
                return (self.stand_ins[name](point),)
        return _only(self._found(point), only)

    def _allowed(self, only: Node | None) -> frozenset[str]:
        """The plugins whose handlers may be called: those of the profile, and of them the `only` ones."""
        listed = frozenset(name for name, _ in self.plan.allowlist)
        return listed if only is None else listed.intersection(name for name, _ in names_of(only))

    def _found(self, point: HookPoint) -> tuple[Implementation, ...]:
        found = implementations_of(self.plugins.manager, point.name)
        if point.twin is not None:
            found = in_call_order((*found, *implementations_of(self.plugins.manager, point.twin)))
        return found

    def _fired(self) -> dict[str, FiredPoint]:
        fired = {}
        for name, hook in self.plan.hooks.items():
            kind = hook.kind or KINDS.get(hook.point.kinds[0])
            if kind is None or hook.node is None or hook.point.bootstrap:
                continue
            policy = policy_of(hook.node, hook, kind, text_of(self.plan.root.get("on_failure")))
            twin = _twin(hook.point)
            only = hook.node.get("only")
            fired[name] = FiredPoint(
                name,
                kind.name if twin is None else "stream",
                hook.point,
                self._asked(hook.point, only),
                hook.takes,
                self._allowed(only),
                self._manner(hook, hook.node, kind.name, "", policy),
                seconds_of(hook.node.get("timeout")),
                policy,
                twin,
            )
        return fired

    def _observers(self) -> Calls:
        point = HOOK_POINTS[ERROR_POINT]
        return bind(self._asked(point), point, {name: name for name in point.takes})


def _groups(waits: list[set[int]]) -> tuple[tuple[int, ...], ...]:
    """The nodes in run order, cut wherever everything below waits for everything above."""
    reached: list[set[int]] = []
    for direct in waits:
        reached.append(direct.union(*(reached[other] for other in direct)))
    cuts: list[int] = []
    passed = len(waits)  # the first node that some node from here on does not wait for
    for index in reversed(range(len(waits))):
        passed = min(passed, next((other for other in range(index) if other not in reached[index]), index))
        if passed == index:
            cuts.append(index)
    starts = [*reversed(cuts), len(waits)]
    return tuple(tuple(range(start, end)) for start, end in itertools.pairwise(starts))


def _parts(nodes: list[GraphNode], groups: tuple[tuple[int, ...], ...]) -> tuple[Chain | GraphNode | SideBySide, ...]:
    parts: list[Chain | GraphNode | SideBySide] = []
    for group in groups:
        node = nodes[group[0]]
        last = parts[-1] if parts else None
        if len(group) > 1:
            parts.append(SideBySide(group))
        elif node.each is not None:
            parts.append(node)
        elif isinstance(last, Chain):
            parts[-1] = Chain((*last.steps, *node.steps))
        else:
            parts.append(Chain(node.steps))
    return tuple(parts)


def _twin(point: HookPoint) -> HookPoint | None:
    return HOOK_POINTS.get(point.twin) if point.twin is not None else None


def _names(implementation: Implementation, argument: str) -> bool:
    return implementation.everything or argument in (*implementation.required, *implementation.optional)


def _only(found: tuple[Implementation, ...], node: Node | None) -> tuple[Implementation, ...]:
    if node is None:
        return found
    plugins = {name for name, _ in names_of(node)}
    return tuple(implementation for implementation in found if implementation.plugin in plugins)


def _hook_key(hook: HookPlan, key: str) -> Node | None:
    return hook.node.get(key) if hook.node is not None else None


def _timeout(hook: HookPlan, node: Node) -> float | None:
    own = seconds_of(node.get("timeout"))
    return own if own is not None else seconds_of(_hook_key(hook, "timeout"))
