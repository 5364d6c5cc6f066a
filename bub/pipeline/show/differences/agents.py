"""Whose memory the folders of a person have."""

from __future__ import annotations

from bub.base.identity.agents import KEY
from bub.pipeline.plan.plan import Plan
from bub.pipeline.show.differences.changes import Changes
from bub.pipeline.source.document import Node


def compare(old: Plan, new: Plan, changes: Changes) -> None:
    """Tell which folders have the memory of another agent now."""
    before, after = _agents(old), _agents(new)
    for folder in dict.fromkeys((*after, *before)):
        was, now = before.get(folder), after.get(folder)
        if (was[0] if was else None) != (now[0] if now else None):
            whose = f"that of agent `{now[0]}`" if now else "its own"
            before_that = f"that of agent `{was[0]}`" if was else "its own"
            message = f"the memory of the agent in {folder} is {whose} (was {before_that})"
            place = (now or was or (None, None))[1]
            danger = "one agent knows what people said to another" if now else False
            changes.add("values.memory", message, KEY, place, danger=danger)


def _agents(plan: Plan) -> dict[str, tuple[str, Node]]:
    """Return the agent of each folder, with the place that says so."""
    said = plan.root.get(KEY)
    agents = said.items() if said is not None and said.is_mapping else ()
    return {
        str(one.value): (name, one)
        for name, folders in agents
        for one in (folders.elements() if folders.is_sequence else ())
    }
