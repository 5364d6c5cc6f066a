"""What a profile's pipeline means, read as far as it can be read: the stages in order, and what each takes and makes.

A plan never fails: what is wrong with a file is for the rules to say, and `explain` needs a picture of a broken
file too.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bub.diagnostics import Findings, Place
from bub.duration import parse_duration
from bub.hookspecs import HOOK_POINTS, HookPoint, own_point
from bub.kinds import KINDS, SESSION, START_VALUES, Kind
from bub.pipeline.document import Node
from bub.pipeline.merge import Document, Effective, effective

TEMPLATE_NAME = re.compile(r"(?<!\{)\{([a-z_][a-z0-9_]*)\}(?!\})")
"""A `{name}` in a `default`; `{{name}}` stands for itself."""

NAME = re.compile("[a-z][a-z0-9_]*")
"""What values are called."""

MOST_STAGES = 1_000
"""How many stages a pipeline may have; a turn of that many takes tens of milliseconds for its order alone."""

EMPTY_VALUES: Mapping[str, type] = {"list": list, "merge": dict, "concat": list, "join": str}
"""What each `combine` comes to, made anew, when there is nothing to combine."""


@dataclass(frozen=True, slots=True)
class HookPlan:
    """A hook point as this pipeline has it: its facts, narrowed or declared under `hooks:`."""

    point: HookPoint
    kind: Kind | None
    node: Node | None
    takes: tuple[str, ...]
    narrowed: bool
    known: bool


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One stage: its merged `node`, its kind (None where it has none), the point it calls, what it waits for.

    `needs` is None where it waits for everything above. `takes` are the values its hook may name, `asks` those the
    file itself names (`for_each`, `changes`, `takes`, templates), `makes` those it makes. An `each` stage runs
    once for every item of a list.
    """

    id: str
    node: Node
    kind: Kind | None
    hook: HookPlan
    enabled: bool
    needs: tuple[str, ...] | None
    takes: tuple[str, ...]
    asks: tuple[tuple[str, Place], ...]
    templated: tuple[str, ...]
    makes: tuple[str, ...]
    each: str | None
    cleanup_for: str | None
    on_failure: str

    @property
    def is_barrier(self) -> bool:
        """Whether nothing of the turn passes it or runs beside it: a gate or claim of the turn itself."""
        return self.kind is not None and self.kind.barrier and self.each is None

    @property
    def yields_something(self) -> bool:
        """Whether it has a value to give when nobody answered."""
        default = self.node.get("default")
        has_default = default is not None and default.value is not None
        return has_default or (self.kind is not None and self.kind.name == "broadcast")

    @property
    def where(self) -> Place:
        return self.node.where

    def place_of(self, *path: str | int) -> Place:
        """Where the stage's key at `path` stands, or the stage's own key where it has none."""
        node = self.node.get(*path)
        return node.where if node is not None else self.node.where

    def __str__(self) -> str:
        return f"stage `{self.id}`"


@dataclass(frozen=True, slots=True)
class Plan:
    """A pipeline for one profile: its stages in the order they run, its hook points, its allowlist.

    `adrift` are the stages whose place cannot be told (a circle, an unknown neighbour, none named): they stand last.
    """

    document: Document
    profile: str
    effective: Effective
    root: Node
    stages: tuple[StagePlan, ...]
    hooks: Mapping[str, HookPlan]
    allowlist: tuple[tuple[str, Place], ...]
    findings: Findings
    adrift: frozenset[str] = frozenset()

    def above(self, stage: StagePlan) -> tuple[StagePlan, ...]:
        """The stages that stand above one, in order."""
        return tuple(itertools.takewhile(lambda other: other is not stage, self.stages))

    def waits_for(self, stage: StagePlan) -> frozenset[str]:
        """The ids of the stages that must be over before this one starts (DESIGN §2, Order)."""
        above = self.above(stage)
        if stage.needs is None or stage.is_barrier:
            return frozenset(other.id for other in above) | frozenset(stage.needs or ())
        # A clean-up that ran beside its target would clean up too early, and would not run again.
        needs = frozenset(stage.needs) | (frozenset() if stage.cleanup_for is None else {stage.cleanup_for})
        taken = set(stage.takes) | {name for name, _ in stage.asks} | set(stage.templated)
        return needs | {other.id for other in above if other.is_barrier or taken.intersection(other.makes)}


def make_plan(document: Document, profile: str, root: Node | None = None) -> Plan:
    """Read what `document` means for `profile`.

    `root` replaces the effective root where its references have been resolved; left out, values that are only a
    reference count as unknown.
    """
    findings = Findings()
    view = effective(document, profile)
    findings.items.extend(view.findings)
    root = root or view.root
    default_policy = text_of(root.get("on_failure"))
    hooks = {name: _hook_plan(name, node) for name, node in _mappings(root.get("hooks"))}
    merged = dict(_mappings(root.get("stages")))
    order, adrift = _written_order(view, merged)
    if len(order) > MOST_STAGES:
        surplus = merged[order[MOST_STAGES]]
        findings.add("B125", f"a pipeline has {MOST_STAGES} stages at most, this one {len(order)}", surplus.where)
    stages = tuple(_stage_plan(name, merged[name], hooks, default_policy) for name in order[:MOST_STAGES])
    names = view.allowlist.elements() if view.allowlist is not None else ()
    allowlist = tuple((name.value, name.place) for name in names if isinstance(name.value, str))
    return Plan(document, profile, view, root, stages, hooks, allowlist, findings, adrift)


# Reading single values, leniently.


def text_of(node: Node | None) -> str | None:
    """A text that is no reference, or None."""
    if node is None or not isinstance(node.value, str) or "${" in node.value:
        return None
    return node.value


def flag_of(node: Node | None) -> bool | None:
    """A truth value (also one that a reference gave as text), or None."""
    if node is None:
        return None
    return {True: True, False: False, "true": True, "false": False}.get(node.value if _hashable(node.value) else None)


def seconds_of(node: Node | None) -> float | None:
    """A duration in seconds, or None."""
    text = text_of(node)
    return parse_duration(text) if text is not None else None


def names_of(node: Node | None) -> tuple[tuple[str, Place], ...]:
    """The texts of a list with their places; () for anything else."""
    if node is None:
        return ()
    return tuple((item.value, item.place) for item in node.elements() if isinstance(item.value, str))


def _hashable(value: Any) -> bool:
    return isinstance(value, str | bool | int | float)


def _mappings(node: Node | None) -> Iterator[tuple[str, Node]]:
    if node is not None:
        yield from ((name, item) for name, item in node.items() if item.is_mapping)


# Hooks and stages.


def _hook_plan(name: str, node: Node | None) -> HookPlan:
    known = HOOK_POINTS.get(name)
    kind = KINDS.get(text_of(node.get("kind")) or "") if node is not None else None
    takes_node = node.get("takes") if node is not None else None
    named = tuple(value for value, _ in names_of(takes_node))
    if known is not None:
        takes = named if takes_node is not None else known.takes
        return HookPlan(known, kind, node, takes, takes_node is not None, known=True)
    point = own_point(name, kind.name if kind else "", named)
    return HookPlan(point, kind, node, point.takes, takes_node is not None, known=False)


def _stage_plan(name: str, node: Node, hooks: Mapping[str, HookPlan], default_policy: str | None) -> StagePlan:
    hook_name = text_of(node.get("hook")) or name
    hook = hooks.get(hook_name) or _hook_plan(hook_name, None)
    kind = KINDS.get(text_of(node.get("kind")) or "") or hook.kind
    each = text_of(node.get("for_each"))
    into = text_of(node.get("into"))
    changes = names_of(node.get("changes"))
    asks = list(changes)
    if hook.narrowed and hook.node is not None:
        # What cannot be a name is the schema's to report.
        asks += [(value, place) for value, place in names_of(hook.node.get("takes")) if NAME.fullmatch(value)]
    if each is not None:
        asks = [(value, place) for value, place in asks if value != "message"]
        asks.append((each, node.get("for_each").place))  # type: ignore[union-attr]  # each was read from it
    session = node.get("when", "session")
    if session is not None:
        asks.append((SESSION, session.where))
    makes = [*(value for value, _ in changes if each is None or value != "message"), *([into] if into else [])]
    if into == SESSION:
        makes.append("message")
    if each is not None and kind is not None and (kind.barrier or kind.name == "modifying"):
        makes.append(each)
    needs = node.get("needs")
    return StagePlan(
        id=name,
        node=node,
        kind=kind,
        hook=hook,
        enabled=flag_of(node.get("enabled")) is not False,
        needs=None if needs is None else tuple(value for value, _ in names_of(needs)),
        takes=tuple(value for value in hook.takes if each is None or value != "message"),
        asks=tuple(asks),
        templated=tuple(template_names(node.get("default"))) + (("message",) if node.get("when") else ()),
        makes=tuple(makes),
        each=each,
        cleanup_for=text_of(node.get("cleanup_for")),
        on_failure=policy_of(node, hook, kind, default_policy),
    )


def policy_of(node: Node, hook: HookPlan, kind: Kind | None, default_policy: str | None) -> str:
    """What a failure does: what the stage says, else its hook, else the pipeline, else its kind."""
    own = text_of(node.get("on_failure"))
    hooks = text_of(hook.node.get("on_failure")) if hook.node is not None else None
    general = default_policy if kind is not None and kind.tunable else None
    return own or hooks or general or (kind.policies[0] if kind is not None else "propagate")


def template_names(node: Node | None) -> Iterator[str]:
    """The names that the `{name}` of a default refer to, all the way down."""
    if node is None:
        return
    if isinstance(node.value, str):
        yield from TEMPLATE_NAME.findall(node.value)
    for child in (*node.elements(), *(item for _, item in node.items())):
        yield from template_names(child)


# Order.


def _written_order(view: Effective, merged: Mapping[str, Node]) -> tuple[list[str], frozenset[str]]:
    """The ids of all stages in the order they stand in once every layer has placed its own, and those adrift.

    A layer sets new stages beside others and moves inherited ones by `before` and `after`. What cannot be placed
    (a circle, an unknown name) stands at the end, so that the rest can still be read.
    """
    order: list[str] = []
    adrift: set[str] = set()
    for index, layer in enumerate(view.layers):
        stages = dict(_mappings(layer.root.get("stages")))
        adrift.update(
            name for name, node in stages.items() if index and name not in order and anchor_of(node)[0] is None
        )
        order = place(order, [(name, *anchor_of(node)) for name, node in stages.items()])
    adrift.update(name for name in merged if name not in order)
    order = [name for name in order if name in merged] + [name for name in merged if name not in order]
    return order, frozenset(adrift)


def anchor_of(node: Node) -> tuple[str, str] | tuple[None, None]:
    """Where a layer sets a stage: ("before" or "after", the other stage), or (None, None)."""
    for side in ("before", "after"):
        other = text_of(node.get(side))
        if other is not None:
            return side, other
    return None, None


def place(order: Iterable[str], stages: Iterable[tuple[str, str | None, str | None]]) -> list[str]:
    """Lay the stages of one layer, as (id, side, other), over an order.

    Each stands directly beside its other; several on one keep the order they were written in; chains are fine.
    """
    stages = list(stages)
    placed = {name: (side, other) for name, side, other in stages if side is not None}
    beside: dict[tuple[str | None, str | None], list[str]] = {}
    for name, anchor in placed.items():
        beside.setdefault(anchor, []).append(name)
    roots = [name for name in order if name not in placed]
    roots += [name for name, side, _ in stages if side is None and name not in roots]

    result: list[str] = []
    todo = list(reversed(roots))
    opened: set[str] = set()
    while todo:
        name = todo.pop()
        if name in opened:
            result.append(name)
            continue
        opened.add(name)
        todo += [*reversed(beside.get(("after", name), [])), name, *reversed(beside.get(("before", name), []))]
    return result


def circles_in(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Circles among the edges, no two with a stage in common, each as a path that ends where it began."""
    circles: list[list[str]] = []
    done: set[str] = set()
    for start in edges:
        path: list[str] = []
        branches = [iter([start])]
        while branches:
            name = next(branches[-1], None)
            if name is None:
                branches.pop()
                if path:
                    done.add(path.pop())
            elif name in path:
                circles.append([*path[path.index(name) :], name])
                done.update(path)
                break
            elif name not in done:
                path.append(name)
                branches.append(iter(edges.get(name, ())))
    return circles


def known_values(plan: Plan) -> set[str]:
    """Every value that exists at some time of a turn of this pipeline."""
    return {*START_VALUES, *(value for stage in plan.stages for value in stage.makes)}
