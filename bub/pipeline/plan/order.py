"""The order of stages: where each layer of a file sets its own, and the order that this comes to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from bub.base.diagnostics import Place
from bub.pipeline.plan.scalars import mappings_in, text_of
from bub.pipeline.source.document import Node
from bub.pipeline.source.profiles import Effective


class Anchor(NamedTuple):
    """Where a layer sets a stage: directly `side` ("before" or "after") the stage `other`, said at `place`."""

    stage: str
    side: str
    other: str
    place: Place


class StageLayer(msgspec.Struct, frozen=True):
    """The stages that one file or profile names, and all that it can set them beside: its own and inherited ones.

    `inherited` is None for the layer that extends nothing; there the order written is the order.
    """

    stages: Mapping[str, Node]
    inherited: frozenset[str] | None
    known: frozenset[str]

    def anchors(self) -> Iterator[Anchor]:
        """The places that are said, of stages that say one only."""
        for name, node in self.stages.items():
            side, other = anchor_of(node)
            said = node.get(side or "")
            if side is not None and other is not None and said is not None and not is_torn(node):
                yield Anchor(name, side, other, said.place)


def layers_of(view: Effective) -> Iterator[StageLayer]:
    """The stages of each layer, the base first, with what it inherits."""
    inherited: frozenset[str] | None = None
    for layer in view.layers:
        stages = dict(mappings_in(layer.root.get("stages")))
        known = frozenset(stages) if inherited is None else inherited.union(stages)
        yield StageLayer(stages, inherited, known)
        inherited = known


def order_stages(layers: Iterable[StageLayer], merged: Mapping[str, Node]) -> tuple[list[str], frozenset[str]]:
    """The ids of all stages in the order they stand in once every layer has placed its own, and those adrift.

    A layer sets new stages beside others and moves inherited ones by `before` and `after`. What cannot be placed
    (a circle, an unknown name) stands at the end, so that the rest can still be read.
    """
    order: list[str] = []
    adrift: set[str] = set()
    for layer in layers:
        if layer.inherited is not None:
            new = layer.stages.keys() - set(order)
            adrift.update(name for name in new if anchor_of(layer.stages[name])[0] is None)
        order = place(order, [(name, *anchor_of(node)) for name, node in layer.stages.items()])
    placed = set(order)
    lost = [name for name in merged if name not in placed]
    adrift.update(lost)
    order = [name for name in order if name in merged] + lost
    return order, frozenset(adrift)


def anchor_of(node: Node) -> tuple[str, str] | tuple[None, None]:
    """Where a layer sets a stage: ("before" or "after", the other stage), or (None, None)."""
    for side in ("before", "after"):
        other = text_of(node.get(side))
        if other is not None:
            return side, other
    return None, None


def is_torn(node: Node) -> bool:
    """Whether a stage says both `before` and `after`."""
    return node.get("before") is not None and node.get("after") is not None


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
        todo += [*reversed(beside.get(("after", name), [])), name, *reversed(beside.get(("before", name), []))]
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
