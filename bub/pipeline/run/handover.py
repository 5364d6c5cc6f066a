"""Handing a turn that has arrived from one graph to another: its session chose a profile, or all was loaded again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from bub.pipeline.run.graph import GraphNode, Step
from bub.pipeline.run.state import TurnState
from bub.pipeline.run.strand import Strand

_NOT_RUN = ("off", "skipped")
"""What became of a stage that did not run."""

_OWN_VALUES = ("inbound", "profile", "workspace")
"""What each turn begins with by itself, whatever another one had."""


def plugins_asked(turn: TurnState) -> Mapping[str, frozenset[str]]:
    """The plugins that were asked at the stages above the session, by the ids of those that ran."""
    ran = {stage for stage, _, _, _, outcome in turn.records if outcome not in _NOT_RUN}
    asked = dict(turn.asked)
    for node in turn.graph.arrival:
        for step in node.steps:
            if step.id in ran:
                plugins = frozenset(call.plugin for call in step.calls.items)
                asked[step.id] = plugins | asked.get(step.id, frozenset())
    return asked


def values_kept(turn: TurnState) -> dict[str, Any]:
    """The values of a turn that has arrived, by name, as another graph may take them over."""
    return {name: turn.values[slot] for name, slot in turn.graph.arrived.items() if name not in _OWN_VALUES}


async def catch_up(turn: TurnState, strand: Strand, kept: dict[str, Any], *, is_same: bool = False) -> None:
    """Run what is still owed above the session of a turn, where `kept` has each value as it is by now.

    What makes the message or the session's id does not run again. Of the other stages those run that did not run
    before, and of those that did the plugins are asked that were not. A gate or claim is asked again as a whole, since
    its plugins have the settings of their own profile, unless it `is_same` and all of them were asked; a stage
    with a clean-up is, too, since its clean-up has run.
    """
    values = turn.values
    for name, slot in turn.graph.arrived.items():
        if name in kept:
            values[slot] = kept[name]
    for node in turn.graph.arrival:
        for step in node.steps:
            for name, slot in step.sources.items():
                if name in kept and slot != node.item:
                    values[slot] = kept[name]
        owed = [one for one in (_still_owed(turn, step, is_same) for step in node.steps) if one is not None]
        made = _list_made(node)
        if not owed:
            for name, slot in made:
                values[slot] = kept.get(name)
            continue
        if node.each is None:
            await strand.run(owed)
        else:
            await strand.run_each(node)
        kept.update((name, values[slot]) for name, slot in made)


def _list_made(node: GraphNode) -> list[tuple[str, int]]:
    made = [] if node.each is None else [(node.each, node.kept)]
    return [*made, *((name, slot) for step in node.steps for name, slot in step.makes if slot != node.item)]


def _still_owed(turn: TurnState, step: Step, is_same: bool) -> Step | None:
    """A stage above the session as it still has to run; None if it need not."""
    asked = turn.asked.get(step.id)
    if step.joins is not None:
        return None
    has_spoken = is_same and asked is not None and asked >= {call.plugin for call in step.calls.items}
    if asked is None or (step.kind.facts.barrier and not has_spoken):
        return step
    makes_message = any(name == "message" for name, _ in step.makes)
    if step.has_cleanup and not makes_message:
        return step
    missing = tuple(call for call in step.calls.items if call.plugin not in asked)
    if step.into is not None or not missing:
        return None
    # Handlers that are registered at run time are no profile's, so they were asked: no hook, no handlers.
    return replace(step, hook="", calls=replace(step.calls, items=missing))
