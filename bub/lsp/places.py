"""What is at a position of a pipeline file, and the names that a file defines and refers to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from bub.base.diagnostics import Place, Position, Range
from bub.base.json_schema import Steps
from bub.pipeline.check.cases import turns_of
from bub.pipeline.source.document import Node
from bub.pipeline.source.interpolate import place_in

Thing: TypeAlias = Literal["stage", "hook", "profile", "plugin"]
"""What a name can be a name of."""

_STAGES = ("needs", "before", "after", "cleanup_for", "replace")
"""The keys of a stage that name others."""


class Spot(NamedTuple):
    """What is at a position: the path of a value, and whether the position is in the key that holds it."""

    steps: Steps
    node: Node
    on_key: bool


def find_spot(root: Node, at: Position) -> Spot | None:
    """Return the innermost key or value at a position; None if there is none."""
    return _find(root, (), at)


def _find(node: Node, steps: Steps, at: Position) -> Spot | None:
    for step, child in parts_of(node):
        inner = (*steps, step)
        if child.key is not None and _holds(child.key.range, at):
            return Spot(inner, child, on_key=True)
        if _holds(child.place.range, at):
            return _find(child, inner, at) or Spot(inner, child, on_key=False)
    return None


def parts_of(node: Node) -> Iterator[tuple[str | int, Node]]:
    """Yield the values directly below one, each with the step that leads to it."""
    yield from node.items()
    yield from enumerate(node.elements())


def _holds(span: Range, at: Position) -> bool:
    return span.start <= at <= span.end


class Mention(NamedTuple):
    """A name of a stage, hook point, profile or plugin, where a file writes it; `defines`: as the key of its own."""

    thing: Thing
    name: str
    place: Place
    defines: bool = False


def mentions_in(root: Node) -> Iterator[Mention]:
    """Yield every name in one file that belongs to the file itself, or to one that it extends."""
    yield from _in_part(root)
    for name, profile in _items(root, "profiles"):
        yield from _key("profile", name, profile)
        yield from _texts("profile", profile.get("extends"))
        yield from _texts("plugin", profile.get("plugins"))
        yield from _in_part(profile)
    for name, plugin in _items(root, "plugins"):
        yield from _key("plugin", name, plugin)
    routes = root.get("routes")
    for route in routes.elements() if routes is not None else ():
        yield from _texts("profile", route.get("profile"))
    for _, test in _items(root, "tests"):
        yield from _in_test(test)


def _in_part(part: Node) -> Iterator[Mention]:
    """Yield what the stages and hook points say that a file or a profile has."""
    for name, stage in _items(part, "stages"):
        yield from _key("stage", name, stage)
        for key in _STAGES:
            yield from _texts("stage", stage.get(key))
        yield from _texts("hook", stage.get("hook"))
        yield from _texts("plugin", stage.get("only"))
    for name, hook in _items(part, "hooks"):
        yield from _key("hook", name, hook)
        yield from _texts("plugin", hook.get("only"))


def _in_test(test: Node) -> Iterator[Mention]:
    yield from _texts("profile", test.get("profile"))
    for name, mock in _items(test, "mock"):
        yield from (Mention("stage", name, place) for _, _, place, _ in _key("stage", name, mock))
    for _, turn in turns_of(test):
        yield from _in_expectations(turn)


def _in_expectations(turn: Node) -> Iterator[Mention]:
    for name, calls in _items(turn.get("expect") or turn, "calls"):
        yield from (Mention("stage", name, place) for _, _, place, _ in _key("stage", name, calls))
    for key in ("ran", "skipped"):
        yield from _texts("stage", turn.get("expect", key))
    yield from _texts("stage", turn.get("expect", "error", "stage"))
    ended = turn.get("expect", "ended_by")
    if ended is not None and isinstance(ended.value, str) and ":" in ended.value:
        start = ended.value.index(":") + 1
        place = place_in(ended, start, len(ended.value))
        if place != ended.place:  # else escapes hide where the name begins
            yield Mention("stage", ended.value[start:], place)


def _items(node: Node, name: str) -> Iterator[tuple[str, Node]]:
    below = node.get(name)
    if below is not None:
        yield from below.items()


def _key(thing: Thing, name: str, node: Node) -> Iterator[Mention]:
    if node.key is not None:
        yield Mention(thing, name, node.key, defines=True)


def _texts(thing: Thing, node: Node | None) -> Iterator[Mention]:
    """Yield the names of a list, or of a text that is one."""
    if node is None:
        return
    for item in (node, *node.elements()):
        if isinstance(item.value, str):
            yield Mention(thing, item.value, item.place)


def mention_at(root: Node, at: Position) -> Mention | None:
    """Return the name that is written at a position; None if what is there is no name of anything."""
    return next((mention for mention in mentions_in(root) if _holds(mention.place.range, at)), None)
