"""What a profile's pipeline means, read as far as it can be read: the stages in order, and what each takes and makes.

A plan never fails: what is wrong with a file is for the rules to say, and `explain` needs a picture of a broken
file too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from bub.base.diagnostics import Findings, Place
from bub.hooks.facts import KINDS, SESSION, START_VALUES, Kind
from bub.pipeline.plan.order import StageLayer, layers_of, order_stages
from bub.pipeline.plan.scalars import mappings_in, text_of
from bub.pipeline.plan.stages import (
    HookPlan,
    KindChange,
    StagePlan,
    find_kind_changes,
    hook_and_kind,
    read_hook,
    read_stage,
)
from bub.pipeline.plan.swaps import find_heirs, find_replacing, hand_on, made_without
from bub.pipeline.source.document import Node
from bub.pipeline.source.merge import Document
from bub.pipeline.source.profiles import Effective, effective
from bub.plugins.shipped import SHIPPED_PLUGINS

_READ = ("stages", "hooks", "on_failure")
"""The keys that say what the stages and hooks of a plan are."""

MOST_STAGES = 1_000
"""How many stages a pipeline may have; a turn of that many takes tens of milliseconds for its order alone."""

_Key = TypeVar("_Key", bound=Hashable)
_Item = TypeVar("_Item")


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


class Plan(msgspec.Struct, frozen=True):
    """A pipeline for one profile: its stages in the order they run, its hook points, its allowlist.

    `adrift` are the stages whose place cannot be known (a circle, an unknown neighbour, none named): they are last.
    `layers` hold the stages that each file and profile names, weakest first. `position` numbers the stages,
    `callers` are those of each hook point, `heirs` of a stage that is off those that stand in for it. `kind_changes`
    is keyed by dotted path (`stages.run_model`). `tools` is what the profile says of them.
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
    heirs: Mapping[str, tuple[str, ...]]
    flow: Flow
    kind_changes: Mapping[str, tuple[KindChange, ...]]
    tools: Node | None = None

    def above(self, stage: StagePlan) -> tuple[StagePlan, ...]:
        """The stages that are above one, in order."""
        return self.stages[: self.position[stage.id]]

    def waits_for(self, stage: StagePlan) -> frozenset[str]:
        """The ids of the stages that must be over before this one starts (DESIGN §2, Order).

        What is below the stage that makes the session's id waits for it and for all above it: there the turn waits
        until its session is free.
        """
        above = self.above(stage)
        if stage.needs is None or stage.is_barrier:
            return frozenset(other.id for other in above) | self.meant_by(*(stage.needs or ()))
        arrival = self.arrival
        found = {other.id for other in arrival} if len(arrival) <= len(above) else set()
        # A clean-up that ran beside its target would clean up too early, and would not run again.
        needs = self.meant_by(*stage.needs, *(() if stage.cleanup_for is None else (stage.cleanup_for,)))
        taken = set(stage.taken)
        made = {other.id for other in above if other.is_barrier or taken.intersection(other.makes)}
        return needs | found | made

    def is_shipped(self, plugin: str) -> bool:
        """Whether a plugin is one that is installed with Bub; none of them has a gate, or brings tools."""
        return plugin in SHIPPED_PLUGINS and self.root.get("plugins", plugin, "path") is None

    @property
    def has_shipped_plugins_only(self) -> bool:
        """Whether all that its plugins bring is known without importing one."""
        return all(self.is_shipped(plugin) for plugin, _ in self.allowlist)

    def stage(self, name: str) -> StagePlan:
        """The stage of that name; it has to be there."""
        return self.stages[self.position[name]]

    def layer_saying(self, name: str, key: str) -> int:
        """The number of the last layer that says a key of a stage; 0 if none does."""
        saying = (index for index, layer in enumerate(self.layers) if _says(layer, name, key))
        return max(saying, default=0)

    def standing_for(self, name: str) -> tuple[str, ...]:
        """The stages that run for one: itself, or what stands in for it if it is off."""
        return self.heirs.get(name, (name,))

    def meant_by(self, *names: str) -> frozenset[str]:
        """The stages that some names mean: themselves, and what stands in for those that are off."""
        return frozenset(names).union(*(self.heirs.get(name, ()) for name in names))

    @property
    def arrival(self) -> tuple[StagePlan, ...]:
        """The stages up to the last one that makes the session's id: they find out whose turn it is; () without one."""
        makers = self.flow.makers.get(SESSION)
        return self.stages[: self.position[makers[-1].id] + 1] if makers else ()


def _says(layer: StageLayer, name: str, key: str) -> bool:
    node = layer.stages.get(name)
    return node is not None and node.get(key) is not None


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
    and their findings are in that plan. `view` is the document as the profile sees it, if that is known.
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
    hooks = {name: read_hook(name, node, kinds) for name, node in mappings_in(root.get("hooks"))}
    merged = dict(mappings_in(root.get("stages")))
    replacing = find_replacing(merged)
    if replacing:
        own_kinds = {name: hook_and_kind(name, node, hooks, kinds)[1] for name, node in merged.items()}
        merged = hand_on(merged, replacing, own_kinds)
    layers = tuple(layers_of(view, replacing))
    order, adrift = order_stages(layers, merged)
    if len(order) > MOST_STAGES:
        surplus = merged[order[MOST_STAGES]]
        findings.add("B125", f"a pipeline has {MOST_STAGES} stages at most, this one {len(order)}", surplus.where)
    stages = tuple(
        read_stage(name, merged[name], hooks, default_policy, kinds, replacing.get(name, ()))
        for name in order[:MOST_STAGES]
    )
    stages = _without_idle_makers(stages)
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
        heirs=find_heirs(stages),
        flow=_flow(root, stages, hooks),
        kind_changes=find_kind_changes(view, kinds),
        tools=tools,
    )


def _allowlist(view: Effective) -> tuple[tuple[str, Place], ...]:
    allowlist: dict[str, Place] = {}
    for name in view.allowlist.elements() if view.allowlist is not None else ():
        if isinstance(name.value, str):
            allowlist.setdefault(name.value, name.place)  # of a name that is listed twice the schema tells
    return tuple(allowlist.items())


def _group(pairs: Iterable[tuple[_Key, _Item]]) -> dict[_Key, tuple[_Item, ...]]:
    groups: dict[_Key, list[_Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return {key: tuple(items) for key, items in groups.items()}


# Values.


def _without_idle_makers(stages: tuple[StagePlan, ...]) -> tuple[StagePlan, ...]:
    """The stages, of which one that is off makes nothing if its value is there without it (DESIGN §13)."""
    idle = made_without(stages)
    return tuple(replace(stage, makes=()) if stage.id in idle else stage for stage in stages) if idle else stages


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
