"""A plan as people see it while it is followed: a row for each step, in as few rows as there is room for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from bub.streaming import StreamEvent
from bub.tape.plan import PlanStep, State, read_steps

_SIGNS: Mapping[State, str] = MappingProxyType({"done": "✔", "doing": "▶", "left": "○"})

MOST_ROWS = 12
"""How many rows of a plan are printed at once."""


class LivePlan:
    """The plan that one answer follows, as its `plan` events tell."""

    def __init__(self) -> None:
        self.steps: tuple[PlanStep, ...] = ()

    def take(self, event: StreamEvent) -> list[str]:
        """Take over the plan of an event; return the rows that it changes."""
        before, self.steps = self.steps, read_steps(event.data)
        news = [step for step in self.steps if step not in before]
        return plan_rows(news if len(news) <= MOST_ROWS else self.steps, MOST_ROWS)

    def rows(self, most: int) -> list[str]:
        """The whole plan, in at most so many rows."""
        return plan_rows(self.steps, most)


def plan_rows(steps: Sequence[PlanStep], most: int) -> list[str]:
    """A plan in at most so many rows: of a longer one those around the first step that is not done."""
    rows = [f"{_SIGNS[one.state]} {one.step}" for one in steps]
    if len(rows) <= most:
        return rows
    at = next((index for index, one in enumerate(steps) if one.state != "done"), len(rows) - 1)
    room = max(most - 2, 1)
    begin = min(max(at - 1, 0), len(rows) - room)
    end = begin + room
    above = [f"… {begin} above"] if begin else []
    below = [f"… {len(rows) - end} more"] if end < len(rows) else []
    return [*above, *rows[begin:end], *below]
