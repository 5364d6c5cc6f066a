"""In which order stages run, and which wait for which."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from bub.pipeline.plan.order import anchor_of
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.waits import waits_of
from bub.pipeline.show.differences.changes import Changes, list_names


def compare(old: Plan, new: Plan, changes: Changes) -> None:
    """Report which stages have moved, and which wait for more or fewer others at the same place."""
    before = [name for name in old.position if name in new.position]
    after = [name for name in new.position if name in old.position]
    nodes = {stage.id: stage.node for stage in new.stages}
    anchors = {stage.id: anchor_of(stage.node) for stage in old.stages}
    for name in find_moved(before, after, {name for name in after if anchor_of(nodes[name]) != anchors[name]}):
        message = f"stage `{name}` runs {describe_position(after, name)} (was {describe_position(before, name)})"
        where = (nodes[name].get("before"), nodes[name].get("after"), nodes[name])
        changes.add("order.moved", message, f"stages.{name}", *where, old=_above(before, name), new=_above(after, name))
    waited, waits = _waits(old), _waits(new)
    for name in after:
        # What follows from a place in the order has been told as the move.
        free = _standing_above(name, waited[name] - waits[name], new)
        bound = _standing_above(name, waits[name] - waited[name], old)
        path, node = f"stages.{name}.needs", nodes[name]
        if free:
            message = f"stage `{name}` no longer waits for {list_names(free)}"
            changes.add("order.waits", message, path, node.get("needs"), node, old=free)
        if bound:
            message = f"stage `{name}` waits for {list_names(bound)}"
            changes.add("order.waits", message, path, node.get("needs"), node, new=bound)


def _waits(plan: Plan) -> dict[str, frozenset[str]]:
    return {name: frozenset(others) for name, others in waits_of(plan).before.items()}


def _standing_above(name: str, others: Iterable[str], plan: Plan) -> list[str]:
    """Return those of the others that a plan has above a stage, in order."""
    above = [other for other in others if other in plan.position and plan.position[other] < plan.position[name]]
    return sorted(above, key=lambda other: plan.position[other])


def find_moved(before: Sequence[str], after: Sequence[str], suspects: Container[str] = ()) -> list[str]:
    """Find the fewest names to move so that one order becomes the other; the `suspects`, if that will do."""
    stood = {name: index for index, name in enumerate(before)}
    if list(before) == list(after):
        return []
    # For each name, of the rows that keep their order and end with it: how good the best is, and the name before.
    best: dict[str, tuple[int, int]] = {}
    above: dict[str, str | None] = {}
    for name in after:
        value, above[name] = max(
            ((best[other], other) for other in best if stood[other] < stood[name]),
            key=lambda row: row[0],
            default=((0, 0), None),
        )
        best[name] = (value[0] + 1, value[1] + (name not in suspects))
    kept: set[str] = set()
    last: str | None = max(after, key=best.__getitem__)
    while last is not None:
        kept.add(last)
        last = above[last]
    return [name for name in after if name not in kept]


def describe_position(order: Sequence[str], name: str) -> str:
    """Return the position of a stage, in words."""
    above = _above(order, name)
    return "first" if above is None else f"after `{above}`"


def _above(order: Sequence[str], name: str) -> str | None:
    at = order.index(name)
    return order[at - 1] if at else None
