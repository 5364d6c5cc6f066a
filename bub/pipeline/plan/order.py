"""The order of stages: the places that each layer of a file sets for its own, and the order that follows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from bub.base.diagnostics import Place
from bub.pipeline.plan.scalars import mappings_in, text_of
from bub.pipeline.source.document import Node
from bub.pipeline.source.profiles import Effective

SIDES = ("before", "after", "replace")
"""The keys that set a stage beside another; what replaces one is right behind it, before all that come after."""


class Anchor(msgspec.Struct, frozen=True):
    """The place of a stage in a layer: directly beside the stage `other`, at `place`; the key `side` is at `where`."""

    stage: str
    side: str
    other: str
    place: Place
    where: Place


class StageLayer(msgspec.Struct, frozen=True):
    """The stages that one file or profile names, and all that it can set them beside: its own and inherited ones.

    `inherited` is None for the layer that extends nothing; there the order written is the order. `heirs` are, for each
    inherited stage that is replaced, the inherited ones that stand for it: what is set beside it is beside them.
    `name` is as in `Place.layer`.
    """

    name: str
    stages: Mapping[str, Node]
    inherited: frozenset[str] | None
    known: frozenset[str]
    heirs: Mapping[str, tuple[str, ...]]

    def anchors(self) -> Iterator[Anchor]:
        """The places that are said, of stages that say one only."""
        for name, node in self.stages.items():
            side, other = self.anchor_of(name)
            said = node.get(side or "")
            if side is not None and other is not None and said is not None and not is_torn(node):
                yield Anchor(name, side, other, said.place, said.where)

    def anchor_of(self, name: str) -> tuple[str, str] | tuple[None, None]:
        """Return the place of a stage in the layer: one of `SIDES` and the other stage, or (None, None)."""
        side, other = anchor_of(self.stages[name])
        if side is None or other is None:
            return None, None
        heirs = self.heirs.get(other, (other,))
        if side == "replace" or name in heirs:
            return side, other
        return side, heirs[0 if side == "before" else -1]


def layers_of(view: Effective, replacing: Mapping[str, tuple[str, ...]]) -> Iterator[StageLayer]:
    """The stages of each layer, the base first, with what it inherits; `replacing` says what each is replaced by."""
    inherited: frozenset[str] | None = None
    for layer in view.layers:
        stages = dict(mappings_in(layer.root.get("stages")))
        known = frozenset(stages) if inherited is None else inherited.union(stages)
        yield StageLayer(layer.name, stages, inherited, known, _heirs_among(inherited or frozenset(), replacing))
        inherited = known


def _heirs_among(inherited: frozenset[str], replacing: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    known = {name: tuple(other for other in others if other in inherited) for name, others in replacing.items()}
    known = {name: others for name, others in known.items() if others}
    return {name: last_of(known, name) for name in known}


def last_of(replacing: Mapping[str, tuple[str, ...]], name: str) -> tuple[str, ...]:
    """The stages that stand for one in the end: itself, or those that replace it, or what replaces these."""
    if name not in replacing:
        return (name,)
    return tuple(last for other in replacing[name] for last in last_of(replacing, other))


def order_stages(layers: Iterable[StageLayer], merged: Mapping[str, Node]) -> tuple[list[str], frozenset[str]]:
    """The ids of all stages in the order they are in once every layer has placed its own, and those adrift.

    A layer sets new stages beside others and moves inherited ones by `before` and `after`. What cannot be placed
    (a circle, an unknown name) is put at the end, so that the rest can still be read.
    """
    order: list[str] = []
    adrift: set[str] = set()
    layers = list(layers)
    for layer, placed in zip(layers, orders_of(layers), strict=True):
        if layer.inherited is not None:
            new = layer.stages.keys() - set(order)
            adrift.update(name for name in new if layer.anchor_of(name)[0] is None)
        order = placed
    there = set(order)
    lost = [name for name in merged if name not in there]
    adrift.update(lost)
    order = [name for name in order if name in merged] + lost
    return order, frozenset(adrift)


def orders_of(layers: Iterable[StageLayer]) -> Iterator[list[str]]:
    """The order of the stages once each layer has placed its own, the base first."""
    order: list[str] = []
    for layer in layers:
        order = place(order, [(name, *layer.anchor_of(name)) for name in layer.stages])
        yield order


def anchor_of(node: Node) -> tuple[str, str] | tuple[None, None]:
    """What a stage says of its place: one of `SIDES` and the other stage, or (None, None)."""
    for side in SIDES:
        other = text_of(node.get(side))
        if other is not None:
            return side, other
    return None, None


def is_torn(node: Node) -> bool:
    """Whether a stage says both `before` and `after`."""
    return node.get("before") is not None and node.get("after") is not None


def place(order: Iterable[str], stages: Iterable[tuple[str, str | None, str | None]]) -> list[str]:
    """Lay the stages of one layer, as (id, side, other), over an order.

    Each is put directly beside its other; several on one keep the order they were written in; chains are fine.
    """
    stages = list(stages)
    placed = {name: (side, other) for name, side, other in stages if side is not None}
    beside: dict[tuple[str | None, str | None], list[str]] = {}
    for name, anchor in placed.items():
        beside.setdefault(anchor, []).append(name)
    roots = [name for name in order if name not in placed]
    there = set(roots)
    roots += [name for name, side, _ in stages if side is None and name not in there]

    result: list[str] = []
    todo = list(reversed(roots))
    opened: set[str] = set()
    while todo:
        name = todo.pop()
        if name in opened:
            result.append(name)
            continue
        opened.add(name)
        before, replacing, after = (reversed(beside.get((side, name), [])) for side in ("before", "replace", "after"))
        todo += [*after, *replacing, name, *before]
    return result


def circles_in(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Circles among the edges, no two with a stage in common, each as a path that ends where it began."""
    circles: list[list[str]] = []
    done: set[str] = set()
    for start in edges:
        path: dict[str, None] = {}
        branches = [iter([start])]
        while branches:
            name = next(branches[-1], None)
            if name is None:
                branches.pop()
                if path:
                    done.add(path.popitem()[0])
            elif name in path:
                walked = list(path)
                circles.append([*walked[walked.index(name) :], name])
                done.update(path)
                break
            elif name not in done:
                path[name] = None
                branches.append(iter(edges.get(name, ())))
    return circles


class Move(msgspec.Struct, frozen=True):
    """A key of `stage`, at `place`, that made the order what it is: mostly `before`, `after` or `replace`."""

    stage: str
    key: str
    place: Place

    @property
    def path(self) -> str:
        return f"stages.{self.stage}.{self.key}"


def find_move(layers: Sequence[StageLayer], upper: str, lower: str) -> Move | None:
    """Find the key that put one stage above another; None if they were written in that order.

    It is in the last layer that changed which of the two is above. If that placed both, it is the key of the lower one,
    unless that stands in for another, whose place is right.
    """
    was_above, deciding = False, None
    for layer, order in zip(layers, orders_of(layers), strict=True):
        is_above = upper in order and lower in order and order.index(upper) < order.index(lower)
        if is_above and not was_above:
            deciding = layer
        was_above = is_above
    moves = {anchor.stage: anchor for anchor in (deciding.anchors() if deciding is not None else ())}
    anchor = min(
        (moves[name] for name in (lower, upper) if name in moves), key=lambda one: one.side == "replace", default=None
    )
    return Move(anchor.stage, anchor.side, anchor.where) if anchor is not None else None
