"""The plan of a session: the steps of a task and how far each is. It lies beside the tape, so it outlives an anchor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from bub.tape.entry import TapeEntry
from bub.tape.tape import Tape

PLAN = "plan"
"""The sidecar that it is kept in, and the name of its events."""

LONGEST_TEXT = 4_000
"""How many letters of a plan an anchor takes along: it must leave room for what is said next."""

State: TypeAlias = Literal["done", "doing", "left"]


class PlanStep(msgspec.Struct, frozen=True):
    """One step of a plan, in one line, and how far it is."""

    step: str
    state: State = "left"


async def plan_of(tape: Tape) -> tuple[PlanStep, ...]:
    """The plan of the session of a tape; none of one that has none. Reads one entry, the newest."""
    sidecar = tape.sidecar(PLAN)
    newest = await sidecar.search(sidecar.query(), most=1)
    return read_steps(newest[0].payload.get("data")) if newest else ()


async def keep_plan(tape: Tape, steps: Sequence[PlanStep]) -> None:
    """Keep a plan from now on, in place of the one before."""
    await tape.sidecar(PLAN).append(TapeEntry.event(PLAN, steps_as_data(steps)))


async def plan_text(tape: Tape) -> str:
    """The plan of the session of a tape for an anchor, "" if there is none; of a long one what is left."""
    steps = await plan_of(tape)
    text = describe_plan(steps)
    if len(text) <= LONGEST_TEXT:
        return text
    ahead = [one for one in steps if one.state != "done"]
    return f"[{len(steps) - len(ahead)} steps are done]\n{describe_plan(ahead)[:LONGEST_TEXT]}"


def describe_plan(steps: Sequence[PlanStep]) -> str:
    """A plan as a model reads it: a line for each step."""
    return "\n".join(f"{number}. [{one.state}] {one.step}" for number, one in enumerate(steps, 1))


def steps_as_data(steps: Sequence[PlanStep]) -> dict[str, Any]:
    """A plan as an event carries it: `{"steps": [{"step": str, "state": "done", "doing" or "left"}, …]}`."""
    return {"steps": [{"step": one.step, "state": one.state} for one in steps]}


def read_steps(data: Any) -> tuple[PlanStep, ...]:
    """The plan that an event carries; none if it carries none."""
    try:
        return tuple(msgspec.convert((data or {}).get("steps"), list[PlanStep]))
    except (msgspec.ValidationError, AttributeError):
        return ()
