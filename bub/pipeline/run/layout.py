"""From a plan that fits together to a graph: slots for values, implementations bound to them, what waits for what."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from bub.base.waiting import Within, unlimited
from bub.hooks.binding import Calls, Manner, bind, in_time, in_words
from bub.hooks.combining import COMBININGS
from bub.hooks.facts import BUILTIN, OUTBOUNDS, RESULTS, SESSION, START_VALUES, Kind
from bub.hooks.implementations import Implementation, in_call_order
from bub.hooks.kinds.runnable import RunnableKind
from bub.hooks.kinds.stream import STREAM
from bub.hookspecs import ERROR_POINT, HOOK_POINTS, HookPoint
from bub.pipeline.plan.conditions import When
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import flag_of, names_of, seconds_of, text_of
from bub.pipeline.plan.stages import HookPlan, StagePlan, policy_of
from bub.pipeline.run.graph import Chain, FiredPoint, Graph, GraphNode, Part, SideBySide, Step, template
from bub.pipeline.run.holding import lay_out_holds
from bub.pipeline.run.provided import BroughtTool
from bub.pipeline.source.document import Node

StandIn: TypeAlias = Callable[[HookPoint], Implementation]
"""Makes the one implementation that answers at a point in place of all those that the plugins bring."""

Recast: TypeAlias = Callable[[str, str, tuple[Implementation, ...]], tuple[Implementation, ...]]
"""Makes others of those that answer in a profile at a stage, by its id, or at a point that is fired ("")."""


def as_they_are(profile: str, stage: str, found: tuple[Implementation, ...]) -> tuple[Implementation, ...]:
    """Keep the implementations that the plugins bring."""
    return found


class GraphLayout(msgspec.Struct):
    """Lays out the slots of a turn and binds every implementation to them.

    Each version of a value has a slot of its own, so a stage reads the version that was made above it whatever
    runs beside it. `current` is where each value stands for the stage that is being laid out.
    """

    plan: Plan
    implementations: Mapping[str, tuple[Implementation, ...]]
    stand_ins: Mapping[str, StandIn]
    kinds: Mapping[str, RunnableKind]
    tools: Mapping[str, BroughtTool]
    recast: Recast = as_they_are
    slots: int = 0
    current: dict[str, int] = msgspec.field(default_factory=dict)
    nothing: int = 0
    cleaned: frozenset[str] = frozenset()

    def build(self) -> Graph:
        self.nothing = self._slot()
        self.cleaned = frozenset(name for stage in self.plan.stages for name in self._targets_of(stage))
        start = {name: self._slot() for name in START_VALUES if name != "fire"}
        self.current = dict(start)
        nodes: list[GraphNode] = []
        index_of: dict[str, int] = {}
        waits: list[set[int]] = []
        left: list[dict[str, int]] = []  # where each value stands when a node is over
        arriving, arrived = 0, start
        last_id = self.plan.arrival[-1].id if self.plan.arrival else None
        pending = list(self.plan.stages)
        while pending:
            each = pending[0].each
            group = [pending.pop(0)]
            while each is not None and pending and pending[0].each == each:
                group.append(pending.pop(0))
            waits.append({index_of[name] for stage in group for name in self.plan.waits_for(stage) if name in index_of})
            index_of.update({stage.id: len(nodes) for stage in group})
            nodes.append(self._node(group, each))
            left.append(dict(self.current))
            if any(stage.id == last_id for stage in group):
                arriving, arrived = len(nodes), dict(self.current)
        steps = [step for node in nodes for step in node.steps]
        groups = _groups(waits)
        return Graph(
            profile=self.plan.profile,
            nodes=tuple(nodes),
            arriving=_parts(nodes, [group for group in groups if group[-1] < arriving]),
            answering=_parts(nodes, [group for group in groups if group[-1] >= arriving]),
            arrival=tuple(nodes[:arriving]),
            arrived=MappingProxyType(arrived),
            looks_early=any(_looks(step, self.plan) for node in nodes[:arriving] for step in node.steps),
            risks_early=any(_calls_plugin(step) for node in nodes[:arriving] for step in node.steps),
            waits=tuple(frozenset(wait) for wait in waits),
            cleanups=tuple(step for step in steps if step.cleanup_for and step.enabled),
            joins=SESSION in self.current,
            slots=self.slots,
            results=operator.itemgetter(*(self.current.get(name, self.nothing) for name in RESULTS)),
            start=MappingProxyType(start),
            values=MappingProxyType(dict(self.current)),
            fired=MappingProxyType(self._lay_out_fired()),
            observers=self._observers(),
            nothing=self.nothing,
            judged=_judged(nodes),
            holds=MappingProxyType(lay_out_holds(self.plan, nodes, index_of, left, self.nothing)),
            bootstrap=MappingProxyType(
                {name: self._select_implementations(point) for name, point in HOOK_POINTS.items() if point.bootstrap}
            ),
            allowlist=tuple(name for name, _ in self.plan.allowlist),
            brought=self.tools,
            warnings=tuple(self.plan.findings.items),
        )

    def _targets_of(self, stage: StagePlan) -> frozenset[str]:
        """The stages that one cleans up for: the one it names, and what stands in for that."""
        return frozenset() if stage.cleanup_for is None else self.plan.meant_by(stage.cleanup_for)

    def _slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def _node(self, group: list[StagePlan], each: str | None) -> GraphNode:
        if each is None:
            return GraphNode((self._step(group[0], self.current),))
        items, item = self.current.get(each, self.nothing), self._slot()
        kept = self._slot() if any(stage.sifts for stage in group) else items
        sources = {**self.current, "message": item}
        steps = tuple(self._step(stage, sources) for stage in group)
        made_anew = sources.get(each, items) != items
        self.current = {**sources, "message": self.current["message"]}
        if kept != items and not made_anew:
            self.current[each] = kept
        idle = not any(step.calls.items or step.into is not None for step in steps)
        return GraphNode(steps, each, items, item, kept, idle)

    def _step(self, stage: StagePlan, sources: dict[str, int]) -> Step:
        """Bind one stage to what it can see, and note in `sources` where the values it makes will stand."""
        assert stage.kind is not None
        seen = dict(sources)
        node, streams = stage.node, stage.kind.name == STREAM.name or _twin(stage.hook.point) is not None
        kind = self.kinds[STREAM.name if streams else stage.kind.name]
        only = node.get("only") or _hook_key(stage.hook, "only")
        found = self._cast(stage.hook.point, only, stage.id)
        fire = self._slot() if any(_names(implementation, "fire") for implementation in found) else None
        keys = {name: seen[name] for name in stage.hook.takes if name in seen}
        offered = MappingProxyType(dict(keys))
        if fire is not None and "fire" in stage.hook.takes:
            keys["fire"] = fire
        manner = self._manner(stage.hook, node, stage.kind, stage.id, stage.on_failure)
        twin = _twin(stage.hook.point)
        point = stage.hook.point
        combine = COMBININGS.get(text_of(node.get("combine")) or "list") if "combine" in kind.facts.keys else None
        makes_text = point.returns == (str,) and "combine" not in kind.facts.keys
        if point.returns is None and combine is not None:
            point = replace(point, returns=combine.returns)  # what is combined must be of the type that can be
        calls = bind(
            found,
            point,
            keys,
            manner=replace(manner, retries=0) if streams else manner,
            twin=twin,
            absent=self.nothing,
            skip_awaitables=True,
        )
        if streams and stage.kind.name != STREAM.name:
            # Whatever a text model says is taken at its word (BEHAVIOURS T15); a stage that streams is strict (H29).
            calls = replace(calls, items=tuple(in_words(call) if call.form == "text" else call for call in calls.items))
        timeout = _timeout(stage.hook, node)
        waits = any(implementation.is_async for implementation in found) or manner.thread or manner.retries > 0
        keeps_time = waits and kind.shielded is not None
        if stage.cleanup_for is not None and timeout is not None and not keeps_time:
            calls = replace(calls, items=tuple(in_time(call, timeout) for call in calls.items))
        into = stage.into if stage.into in stage.makes else None  # one that is off may make nothing
        slot = self._add_value(into, sources) if into is not None else None
        joins = self._add_value("message", sources) if into == SESSION else None
        changes = tuple(
            (name, seen.get(name, self.nothing), self._renew_value(name, stage, sources))
            for name, _ in names_of(node.get("changes"))
        )
        default = node.get("default")
        when = node.get("when")
        makes = [(name, after) for name, _, after in changes]
        makes += [("message", joins)] if joins is not None else []
        makes += [(into, slot)] if into is not None and slot is not None else []
        has_cleanup = stage.id in self.cleaned
        makes_message = into == "message" and stage.each is None
        return Step(
            id=stage.id,
            hook=stage.hook.point.name,
            kind=kind,
            calls=calls,
            manner=manner,
            sources=MappingProxyType(seen),
            offered=offered,
            allowed=self._list_allowed(only),
            message=seen["message"],
            call=kind.call,
            into=slot,
            changes=changes,
            makes=tuple(makes),
            fire=fire,
            combine=combine if into is not None else None,
            default=template(default.plain(), seen, seen["message"], in_words=makes_text)
            if default is not None and default.value is not None
            else None,
            falsy=text_of(node.get("default_if")) == "falsy",
            when=When.of({name: str(glob.value) for name, glob in when.items()}) if when is not None else None,
            enabled=stage.enabled,
            timeout=timeout,
            on_failure=stage.on_failure,
            waits=waits,
            cleanup_for=self._targets_of(stage),
            patience=Within(timeout, shield=True) if timeout is not None else unlimited,
            has_cleanup=has_cleanup,
            guarded=not stage.enabled or when is not None or has_cleanup or fire is not None,
            direct=not kind.pulls and timeout is None and stage.cleanup_for is None,
            marks=makes_message or joins is not None,
            joins=joins,
            tells=stage.kind.name == STREAM.name,
        )

    def _add_value(self, name: str, sources: dict[str, int]) -> int:
        sources[name] = self._slot()
        return sources[name]

    def _renew_value(self, name: str, stage: StagePlan, sources: dict[str, int]) -> int:
        # The item of a list is one slot that each of its stages may set again; the list itself is kept apart.
        if stage.each is not None and name == "message":
            return sources["message"]
        return self._add_value(name, sources)

    def _manner(self, hook: HookPlan, node: Node, kind: Kind, who: str, on_failure: str) -> Manner:
        thread = flag_of(node.get("thread"))
        if thread is None and hook.node is not None:
            thread = flag_of(hook.node.get("thread"))
        times = node.get("retry", "times")
        retries = int(times.value) if times is not None and isinstance(times.value, int) else 0
        backoff = seconds_of(node.get("retry", "backoff")) or 0.0
        idle = seconds_of(node.get("idle_timeout"))
        return Manner(kind.frozen, thread is True, retries, backoff, who, on_failure, idle)

    def _cast(self, point: HookPoint, only: Node | None = None, stage: str = "") -> tuple[Implementation, ...]:
        """Who answers at a point in a turn: those that are selected, or others in their place."""
        return self.recast(self.plan.profile, stage, self._select_implementations(point, only, stage))

    def _select_implementations(
        self, point: HookPoint, only: Node | None = None, stage: str = ""
    ) -> tuple[Implementation, ...]:
        """Who answers at a point, for a stage or for whoever fires it: the `only` ones of those who are found."""
        for name in (stage, point.name, point.twin or ""):
            if name in self.stand_ins:
                return (self.stand_ins[name](point),)
        return _only(self._find_implementations(point), only)

    def _list_allowed(self, only: Node | None) -> frozenset[str]:
        """The plugins whose handlers may be called: those of the profile, and of them the `only` ones."""
        listed = frozenset(name for name, _ in self.plan.allowlist)
        return listed if only is None else listed.intersection(name for name, _ in names_of(only))

    def _find_implementations(self, point: HookPoint) -> tuple[Implementation, ...]:
        found = self.implementations.get(point.name, ())
        if point.twin is not None:
            found = in_call_order((*found, *self.implementations.get(point.twin, ())))
        return found

    def _lay_out_fired(self) -> dict[str, FiredPoint]:
        fired = {}
        for name, hook in self.plan.hooks.items():
            usual = self.kinds.get(hook.point.kinds[0])
            kind = hook.kind or (usual.facts if usual is not None else None)
            if kind is None or hook.node is None or hook.point.bootstrap:
                continue
            policy = policy_of(hook.node, hook, kind, text_of(self.plan.root.get("on_failure")))
            twin = _twin(hook.point)
            only = hook.node.get("only")
            fired[name] = FiredPoint(
                name,
                self.kinds[kind.name if twin is None else STREAM.name],
                hook.point,
                self._cast(hook.point, only),
                hook.takes,
                self._list_allowed(only),
                self._manner(hook, hook.node, kind, "", policy),
                seconds_of(hook.node.get("timeout")),
                policy,
                twin,
            )
        return fired

    def _observers(self) -> Calls:
        point = HOOK_POINTS[ERROR_POINT]
        return bind(self._cast(point), point, {name: name for name in point.takes})


def _looks(step: Step, plan: Plan) -> bool:
    """Whether a stage above the session does more with the message than to find its session, or to hand it on.

    The builtin plugin leaves the message of a channel as it is.
    """
    if not step.enabled or step.joins is not None:
        return False
    default = plan.stage(step.id).node.get("default")
    remakes = ("message", step.into) in step.makes and default is not None and default.value != "{message}"
    return _calls_plugin(step) or remakes


def _calls_plugin(step: Step) -> bool:
    return step.enabled and any(item.plugin != BUILTIN for item in step.calls.items)


def _judged(nodes: Iterable[GraphNode]) -> tuple[tuple[int, int], ...]:
    """Where the replies stand before and after what may keep one back or change it."""
    pairs = []
    for node in nodes:
        if node.each == OUTBOUNDS and node.sifts:
            pairs.append((node.items, node.kept))
        pairs += [(read, write) for step in node.steps for name, read, write in step.changes if name == OUTBOUNDS]
    return tuple(pairs)


def _all_before(index: int) -> int:
    return (1 << index) - 1


def _groups(waits: list[set[int]]) -> tuple[tuple[int, ...], ...]:
    """The nodes in run order, cut wherever everything below waits for everything above."""
    reached: list[int] = []  # a bit for each node that is waited for
    for index, direct in enumerate(waits):
        above = _all_before(index)
        bits = above if len(direct) == index else 0
        for other in sorted(direct, reverse=True) if bits != above else ():
            if not bits >> other & 1:
                bits |= reached[other] | 1 << other
        reached.append(bits)
    cuts: list[int] = []
    passed = len(waits)  # the first node that some node from here on does not wait for
    for index in reversed(range(len(waits))):
        free = (_all_before(index) & ~reached[index]) | 1 << index
        passed = min(passed, (free & -free).bit_length() - 1)
        if passed == index:
            cuts.append(index)
    starts = [*reversed(cuts), len(waits)]
    return tuple(tuple(range(start, end)) for start, end in itertools.pairwise(starts))


def _parts(nodes: list[GraphNode], groups: Iterable[tuple[int, ...]]) -> tuple[Part, ...]:
    parts: list[Part] = []
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
