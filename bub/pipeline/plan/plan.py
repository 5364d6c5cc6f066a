"""What a profile's pipeline means, read as far as it can be read: the stages in order, and what each takes and makes.

A plan never fails: what is wrong with a file is for the rules to say, and `explain` needs a picture of a broken
file too.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from bub.base.diagnostics import Findings, Place, Related
from bub.hooks.facts import KINDS, SESSION, START_VALUES, Kind
from bub.hookspecs import HOOK_POINTS, HookPoint, own_point
from bub.pipeline.plan.order import StageLayer, layers_of, order_stages
from bub.pipeline.plan.scalars import flag_of, mappings_in, names_of, text_of
from bub.pipeline.plan.templates import template_names
from bub.pipeline.source.document import Node
from bub.pipeline.source.merge import Document
from bub.pipeline.source.profiles import Effective, effective

NAME = re.compile("[a-z][a-z0-9_]*")
"""What values are called."""

_READ = ("stages", "hooks", "on_failure")
"""The keys that say what the stages and hooks of a plan are."""

MOST_STAGES = 1_000
"""How many stages a pipeline may have; a turn of that many takes tens of milliseconds for its order alone."""

_Key = TypeVar("_Key", bound=Hashable)
_Item = TypeVar("_Item")


class HookPlan(msgspec.Struct, frozen=True):
    """A hook point as this pipeline has it: its facts, narrowed or declared under `hooks:`."""

    point: HookPoint
    kind: Kind | None
    node: Node | None
    takes: tuple[str, ...]
    narrowed: bool
    known: bool


class StagePlan(msgspec.Struct, frozen=True):
    """One stage: its merged `node`, its kind (None where it has none), the point it calls, what it waits for.

    `needs` is None where it waits for everything above. `takes` are the values its hook may name, `asks` those the
    file itself names (`for_each`, `changes`, `takes`, templates), `makes` those it makes. An `each` stage runs
    once for every item of a list; one that `sifts` takes items out of it, or changes them.
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
    sifts: bool
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
        return has_default or (self.kind is not None and "combine" in self.kind.keys)

    @property
    def taken(self) -> tuple[str, ...]:
        """Every value it takes, whoever asks for it; a name may come twice."""
        return (*self.takes, *self.templated, *(name for name, _ in self.asks))

    @property
    def where(self) -> Place:
        return self.node.where

    def place_of(self, *path: str | int) -> Place:
        """Where the stage's key at `path` stands, or the stage's own key where it has none."""
        node = self.node.get(*path)
        return node.where if node is not None else self.node.where

    def making(self, name: str) -> Related:
        """Where it makes a value, for a finding that is about another place."""
        place = self.place_of("into")
        return Related(f"{self} makes `{name}` here", place.file, place.range)

    def __str__(self) -> str:
        return f"stage `{self.id}`"


class Flow(msgspec.Struct, frozen=True):
    """Who makes each value and who takes it, in the order the stages run.

    `missing` are the values that some stage takes and no other makes; none where a part of the file that may make
    them cannot be read. `slips` are stages, by id, whose `into` nobody takes, each with the missing value it is
    spelt almost like.
    """

    makers: Mapping[str, tuple[StagePlan, ...]]
    takers: Mapping[str, tuple[StagePlan, ...]]
    missing: frozenset[str]
    slips: Mapping[str, str]


class KindChange(msgspec.Struct, frozen=True):
    """A layer that says another kind of an inherited stage or hook than `kind`, which was said `first`."""

    layer: str
    kind: str
    first: Place
    other: str
    place: Place


class Plan(msgspec.Struct, frozen=True):
    """A pipeline for one profile: its stages in the order they run, its hook points, its allowlist.

    `adrift` are the stages whose place cannot be told (a circle, an unknown neighbour, none named): they stand last.
    `layers` hold the stages that each file and profile names, weakest first. `position` numbers the stages,
    `callers` are those of each hook point, `kind_changes` stands by dotted path (`stages.run_model`). `tools` is what
    the profile says of them.
    """

    document: Document
    profile: str
    effective: Effective
    root: Node
    stages: tuple[StagePlan, ...]
    hooks: Mapping[str, HookPlan]
    allowlist: tuple[tuple[str, Place], ...]
    findings: Findings
    adrift: frozenset[str]
    layers: tuple[StageLayer, ...]
    position: Mapping[str, int]
    callers: Mapping[str, tuple[StagePlan, ...]]
    flow: Flow
    kind_changes: Mapping[str, tuple[KindChange, ...]]
    tools: Node | None = None

    def above(self, stage: StagePlan) -> tuple[StagePlan, ...]:
        """The stages that stand above one, in order."""
        return self.stages[: self.position[stage.id]]

    def waits_for(self, stage: StagePlan) -> frozenset[str]:
        """The ids of the stages that must be over before this one starts (DESIGN §2, Order).

        What stands below the stage that makes the session's id waits for it and for all above it: there the turn waits
        until its session is free.
        """
        above = self.above(stage)
        if stage.needs is None or stage.is_barrier:
            return frozenset(other.id for other in above) | frozenset(stage.needs or ())
        arrival = self.arrival
        found = {other.id for other in arrival} if len(arrival) <= len(above) else set()
        # A clean-up that ran beside its target would clean up too early, and would not run again.
        needs = frozenset(stage.needs) | (frozenset() if stage.cleanup_for is None else {stage.cleanup_for})
        taken = set(stage.taken)
        made = {other.id for other in above if other.is_barrier or taken.intersection(other.makes)}
        return needs | found | made

    @property
    def arrival(self) -> tuple[StagePlan, ...]:
        """The stages up to the last one that makes the session's id: they find out whose turn it is; () without one."""
        makers = self.flow.makers.get(SESSION)
        return self.stages[: self.position[makers[-1].id] + 1] if makers else ()


def make_plan(
    document: Document,
    profile: str,
    root: Node | None = None,
    tools: Node | None = None,
    kinds: Mapping[str, Kind] = KINDS,
    like: Plan | None = None,
    view: Effective | None = None,
) -> Plan:
    """Read what `document` means for `profile`.

    `root` and `tools` replace the effective root and the profile's `tools` where their references have been resolved;
    left out, values that are only a reference count as unknown. `kinds` are those that stages and hooks may be of.
    `like` is a plan for another profile: if the stages and hooks of both are the very same, they are not read again,
    and what is wrong with them stands there. `view` is the document as the profile sees it, if that is known.
    """
    findings = Findings()
    view = view or effective(document, profile)
    findings.items.extend(view.findings)
    root = root or view.root
    tools = tools or (view.profile_node.get("tools") if view.profile_node is not None else None)
    allowlist = _allowlist(view)
    if like is not None and all(root.get(name) is like.root.get(name) for name in _READ):
        same = replace(like, profile=profile, effective=view, root=root)
        return replace(same, allowlist=allowlist, findings=findings, tools=tools)
    default_policy = text_of(root.get("on_failure"))
    hooks = {name: _hook_plan(name, node, kinds) for name, node in mappings_in(root.get("hooks"))}
    merged = dict(mappings_in(root.get("stages")))
    layers = tuple(layers_of(view))
    order, adrift = order_stages(layers, merged)
    if len(order) > MOST_STAGES:
        surplus = merged[order[MOST_STAGES]]
        findings.add("B125", f"a pipeline has {MOST_STAGES} stages at most, this one {len(order)}", surplus.where)
    stages = tuple(_stage_plan(name, merged[name], hooks, default_policy, kinds) for name in order[:MOST_STAGES])
    return Plan(
        document,
        profile,
        view,
        root,
        stages,
        hooks,
        allowlist,
        findings,
        adrift,
        layers,
        position={stage.id: index for index, stage in enumerate(stages)},
        callers=_group((stage.hook.point.name, stage) for stage in stages),
        flow=_flow(root, stages, hooks),
        kind_changes=_kind_changes(view, kinds),
        tools=tools,
    )


def _allowlist(view: Effective) -> tuple[tuple[str, Place], ...]:
    allowlist: dict[str, Place] = {}
    for name in view.allowlist.elements() if view.allowlist is not None else ():
        if isinstance(name.value, str):
            allowlist.setdefault(name.value, name.place)  # of a name that is listed twice the schema tells
    return tuple(allowlist.items())


# Hooks and stages.


def _group(pairs: Iterable[tuple[_Key, _Item]]) -> dict[_Key, tuple[_Item, ...]]:
    groups: dict[_Key, list[_Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return {key: tuple(items) for key, items in groups.items()}


def _hook_plan(name: str, node: Node | None, kinds: Mapping[str, Kind]) -> HookPlan:
    known = HOOK_POINTS.get(name)
    kind = kinds.get(text_of(node.get("kind")) or "") if node is not None else None
    takes_node = node.get("takes") if node is not None else None
    named = tuple(value for value, _ in names_of(takes_node))
    if known is not None:
        takes = named if takes_node is not None else known.takes
        return HookPlan(known, kind, node, takes, takes_node is not None, known=True)
    point = own_point(name, kind.name if kind else "", named)
    return HookPlan(point, kind, node, point.takes, takes_node is not None, known=False)


def _stage_plan(
    name: str, node: Node, hooks: Mapping[str, HookPlan], default_policy: str | None, kinds: Mapping[str, Kind]
) -> StagePlan:
    hook_name = text_of(node.get("hook")) or name
    hook = hooks.get(hook_name) or _hook_plan(hook_name, None, kinds)
    kind = kinds.get(text_of(node.get("kind")) or "") or hook.kind
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
    sifts = each is not None and kind is not None and kind.can_object
    if each is not None and sifts:
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
        sifts=sifts,
        cleanup_for=text_of(node.get("cleanup_for")),
        on_failure=policy_of(node, hook, kind, default_policy),
    )


def policy_of(node: Node, hook: HookPlan, kind: Kind | None, default_policy: str | None) -> str:
    """What a failure does: what the stage says, else its hook, else the pipeline, else its kind."""
    own = text_of(node.get("on_failure"))
    hooks = text_of(hook.node.get("on_failure")) if hook.node is not None else None
    general = default_policy if kind is not None and kind.tunable else None
    return own or hooks or general or (kind.policies[0] if kind is not None else "propagate")


def _kind_changes(view: Effective, kinds: Mapping[str, Kind]) -> dict[str, tuple[KindChange, ...]]:
    """Every change of a kind that was said in a layer below, by the path of the stage or hook."""
    first: dict[str, Node] = {}
    changes: list[tuple[str, KindChange]] = []
    for layer in view.layers:
        for section in ("stages", "hooks"):
            for name, node in mappings_in(layer.root.get(section)):
                said, path = node.get("kind"), f"{section}.{name}"
                if said is None or text_of(said) not in kinds:
                    continue
                inherited = first.setdefault(path, said)
                if said.value != inherited.value:
                    change = KindChange(layer.name, inherited.value, inherited.place, said.value, said.place)
                    changes.append((path, change))
    return _group(changes)


# Values.


def _flow(root: Node, stages: tuple[StagePlan, ...], hooks: Mapping[str, HookPlan]) -> Flow:
    makers = _group((name, stage) for stage in stages for name in dict.fromkeys(stage.makes))
    takers = _group((name, stage) for stage in stages for name in dict.fromkeys(stage.taken))
    missing = frozenset(
        name
        for name, asking in (takers.items() if is_readable(root, stages) else ())
        if name not in START_VALUES and _is_missing(makers.get(name, ()), asking)
    )
    known = {*takers, *(name for hook in hooks.values() for name in hook.takes)}
    # What only the file asks for may be misspelt itself.
    expected = sorted({name for stage in stages if stage.hook.known for name in stage.takes} & missing)
    slips = {}
    for stage in stages:
        into = stage.node.get("into")
        if expected and into is not None and isinstance(into.value, str) and into.value not in known:
            meant = _nearly(into.value, expected)
            if meant is not None:
                slips[stage.id] = meant
    return Flow(makers, takers, missing, slips)


def _is_missing(makers: tuple[StagePlan, ...], takers: tuple[StagePlan, ...]) -> bool:
    """Whether some taker has nobody but itself to make what it takes."""
    return not makers or (len(makers) == 1 and makers[0] in takers)


def is_readable(root: Node, stages: Iterable[StagePlan]) -> bool:
    """Whether each stage and what it makes can be read; else the value that is missed may be made there."""
    written = root.get("stages")
    return all(node.is_mapping for _, node in (written.items() if written is not None else ())) and all(
        node is None or text_of(node) is not None for node in (stage.node.get("into") for stage in stages)
    )


def _nearly(name: str, expected: list[str]) -> str | None:
    """What a name is a slip for, or the end of; stricter than a suggestion, since the name itself may be right."""
    import difflib  # only where a value is missing

    close = difflib.get_close_matches(name, expected, n=1, cutoff=0.81)
    ends = [other for other in expected if other.endswith(f"_{name}")]
    return next(iter([*close, *ends]), None)


def known_values(plan: Plan) -> set[str]:
    """Every value that exists at some time of a turn of this pipeline."""
    return {*START_VALUES, *plan.flow.makers}


def known_stages(plan: Plan) -> set[str]:
    """Every stage that the pipeline names; one that cannot be read exists all the same."""
    written = plan.root.get("stages")
    return {*plan.position, *(name for name, _ in (written.items() if written is not None else ()))}
