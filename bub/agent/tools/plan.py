"""The tool `plan`: what the person sees of a long task while it is done."""

from __future__ import annotations

from typing import Annotated

from bub.plugins.view import ProfileView
from bub.streaming import StreamEvent
from bub.tape.plan import PLAN, PlanStep, State, describe_plan, keep_plan, plan_of, steps_as_data
from bub.tools import Tool, ToolContext, ToolError, tool

MOST_STEPS = 100
LONGEST_STEP = 200
"""How many letters of a step are kept."""


def plan_tools(framework: ProfileView) -> list[Tool]:
    """The tool for the plan of a session, which the person sees."""
    return [plan.bind(framework)]


@tool(name="plan", bound=True, read_only=True, reaches=None)
async def plan(
    framework: ProfileView,
    /,
    done: Annotated[list[str], "The steps that are done."] = [],  # noqa: B006 (no two calls share it)
    doing: Annotated[str, "The step that you do now."] = "",
    left: Annotated[list[str], "The steps that come next."] = [],  # noqa: B006
    *,
    context: ToolContext,
) -> str:
    """Show the person the plan of a task of several steps. Give all of it each time, in short words, and keep it true.

    It is kept if the conversation starts over. Without arguments it is only read.
    """
    said: list[tuple[State, str]] = [
        *(("done", step) for step in done),
        ("doing", doing),
        *(("left", step) for step in left),
    ]
    steps = [PlanStep(_in_a_line(step), state) for state, step in said if step.strip()]
    if len(steps) > MOST_STEPS:
        raise ToolError(f"a plan has at most {MOST_STEPS} steps", help="put several into one", kind="invalid_input")
    if not steps:
        known = await plan_of(context.tape) if context.tape is not None else ()
        return describe_plan(known) or "there is no plan"
    if context.tape is not None:
        await keep_plan(context.tape, steps)
    await framework.tell(StreamEvent(PLAN, steps_as_data(steps)))
    ahead = sum(one.state != "done" for one in steps)
    return f"the person sees the plan: {len(steps) - ahead} of {len(steps)} steps are done"


def _in_a_line(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= LONGEST_STEP else f"{words[: LONGEST_STEP - 1]}…"
