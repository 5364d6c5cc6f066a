"""Clean-ups: stages that run whatever became of the stage they are for, and that nothing cancels."""

from __future__ import annotations

from typing import Any

import trio

from bub.base.waiting import MovingDeadline
from bub.hooks.kinds.runnable import Failed
from bub.pipeline.run.graph import Step
from bub.pipeline.run.state import TurnState


async def clean_up(turn: TurnState, step: Step, limit: MovingDeadline, failed: Failed) -> Any:
    """Run a clean-up: each implementation has its own time, and all of them run; return the result that its kind makes.

    The first error counts if the policy propagates; the others are reported. `limit` is that of the stages around it.
    """
    turn.cleaned.add(step.id)
    kept = turn.kept[step.id] = []
    assert step.timeout is not None
    try:
        if step.kind.shielded is not None and step.waits:
            came = await step.kind.shielded(step.calls, turn.values, step.timeout, failed)
        else:
            came = await step.call(turn.calls_of(step), turn.values, step.patience, failed)
    finally:
        del turn.kept[step.id]
    if kept:
        limit.release()
    raised = [error for _, error in kept[:1] if step.on_failure == "propagate"]
    for call, error in kept[len(raised) :]:
        await turn.report(f"{call.hook}:{call.plugin}", error)
    if not raised:
        return came
    kept.clear()
    if isinstance(raised[0], trio.TooSlowError):
        turn.late.append(raised[0])
    raise raised.pop()  # no variable names it here: this frame is in its traceback
