"""Stages and hook points as a pipeline says them: each read by itself, with what it takes and makes."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from bub.base.diagnostics import Place, Related
from bub.hooks.facts import SESSION, Kind
from bub.hookspecs import HOOK_POINTS, HookPoint, own_point
from bub.pipeline.plan.scalars import flag_of, mappings_in, names_of, text_of
from bub.pipeline.plan.swaps import REPLACE
from bub.pipeline.plan.templates import template_names
from bub.pipeline.source.document import Node
from bub.pipeline.source.profiles import Effective

NAME = re.compile("[a-z][a-z0-9_]*")
"""What values are called."""


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
    once for every item of a list; one that `sifts` takes items out of it, or changes them. `replaced_by` are the stages
    in whose favour it is off.
    """

    id: str
    node: Node
    kind: Kind | None
    hook: HookPlan
    enabled: bool
    replaced_by: tuple[str, ...]
    needs: tuple[str, ...] | None
    takes: tuple[str, ...]
    asks: tuple[tuple[str, Place], ...]
    templated: tuple[str, ...]
    into: str | None
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
    def replaces(self) -> str | None:
        """The stage whose place it takes while it is on."""
        return text_of(self.node.get(REPLACE)) if self.enabled or self.replaced_by else None

    @property
    def taken(self) -> tuple[str, ...]:
        """Every value it takes, whoever asks for it; a name may come twice."""
        return (*self.takes, *self.templated, *(name for name, _ in self.asks))

    @property
    def where(self) -> Place:
        return self.node.where

    def place_of(self, *path: str | int) -> Place:
        """Return the place of the stage's key at `path`, or of the stage's own key if it has none."""
        node = self.node.get(*path)
        return node.where if node is not None else self.node.where

    def making(self, name: str) -> Related:
        """Return the place at which it makes a value, for a finding that is about another place."""
        place = self.place_of("into")
        return Related(f"{self} makes `{name}` here", place.file, place.range)

    def taking(self, name: str) -> Related:
        """Return the place at which it takes a value, for a finding that is about another place."""
        return Related(f"{self} takes `{name}`", self.where.file, self.where.range)

    def __str__(self) -> str:
        return f"stage `{self.id}`"


def read_hook(name: str, node: Node | None, kinds: Mapping[str, Kind]) -> HookPlan:
    """What a pipeline says of a hook point in `node`, its entry under `hooks:`."""
    known = HOOK_POINTS.get(name)
    kind = kinds.get(text_of(node.get("kind")) or "") if node is not None else None
    takes_node = node.get("takes") if node is not None else None
    named = tuple(value for value, _ in names_of(takes_node))
    if known is not None:
        takes = named if takes_node is not None else known.takes
        return HookPlan(known, kind, node, takes, takes_node is not None, known=True)
    point = own_point(name, kind.name if kind else "", named)
    return HookPlan(point, kind, node, point.takes, takes_node is not None, known=False)


def hook_and_kind(
    name: str, node: Node, hooks: Mapping[str, HookPlan], kinds: Mapping[str, Kind]
) -> tuple[HookPlan, Kind | None]:
    hook_name = text_of(node.get("hook")) or name
    hook = hooks.get(hook_name) or read_hook(hook_name, None, kinds)
    return hook, kinds.get(text_of(node.get("kind")) or "") or hook.kind


def read_stage(
    name: str,
    node: Node,
    hooks: Mapping[str, HookPlan],
    default_policy: str | None,
    kinds: Mapping[str, Kind],
    replaced_by: tuple[str, ...],
) -> StagePlan:
    hook, kind = hook_and_kind(name, node, hooks, kinds)
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
        enabled=flag_of(node.get("enabled")) is not False and not replaced_by,
        replaced_by=replaced_by,
        needs=None if needs is None else tuple(value for value, _ in names_of(needs)),
        takes=tuple(value for value in hook.takes if each is None or value != "message"),
        asks=tuple(asks),
        templated=tuple(template_names(node.get("default"))) + (("message",) if node.get("when") else ()),
        into=into,
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


class KindChange(msgspec.Struct, frozen=True):
    """A layer that says another kind of an inherited stage or hook than `kind`, which was said `first`."""

    layer: str
    kind: str
    first: Place
    other: str
    place: Place


def find_kind_changes(view: Effective, kinds: Mapping[str, Kind]) -> dict[str, tuple[KindChange, ...]]:
    """Every change of a kind that was said in a layer below, by the path of the stage or hook."""
    first: dict[str, Node] = {}
    changes: dict[str, list[KindChange]] = {}
    for layer in view.layers:
        for section in ("stages", "hooks"):
            for name, node in mappings_in(layer.root.get(section)):
                said, path = node.get("kind"), f"{section}.{name}"
                if said is None or text_of(said) not in kinds:
                    continue
                inherited = first.setdefault(path, said)
                if said.value != inherited.value:
                    change = KindChange(layer.name, inherited.value, inherited.place, said.value, said.place)
                    changes.setdefault(path, []).append(change)
    return {path: tuple(found) for path, found in changes.items()}
