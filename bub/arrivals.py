"""What is asked about a message before its turn: which session it belongs to, and what becomes of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import trio

from bub.admission import ACTIONS
from bub.binding import Call, Calls
from bub.calling import firstresult
from bub.envelope import Envelope, field_of
from bub.errors import HookError
from bub.kinds import SESSION
from bub.pipeline.engine import MORE_TIME, TooSlowError, tell_observers
from bub.pipeline.graph import Graph
from bub.waiting import unlimited

ADMISSION_PATIENCE = 10.0
"""How long, in seconds, a plugin may think about what becomes of a message."""

_HOOK = "resolve_session"


def origin_of(message: Envelope) -> str:
    """Where a message comes from: the session it names itself, else its channel and chat (BEHAVIOURS T4)."""
    own = field_of(message, SESSION)
    named = str(own).strip() if own else ""
    return named or f"{field_of(message, 'channel')}:{field_of(message, 'chat_id')}"


async def session_of(graph: Graph, start: Mapping[str, Any]) -> str:
    """The session of the message that a turn would `start` with, found as the turn's own stage finds it.

    Where there is no such stage, or nobody answers, it is where the message comes from. Raises what the hook raises.
    """
    message = start["message"]
    step = next((one for one in graph.steps if one.joins is not None and one.hook == _HOOK), None)
    if step is None or not step.enabled or (step.when is not None and not step.when.matches(message, {})):
        return origin_of(message)
    values: list[Any] = [None] * graph.slots
    for name, slot in graph.start.items():
        values[slot] = start[name]
    values[step.message] = message  # what a stage above it makes of the message is not known yet

    async def failed(call: Call, error: Exception) -> None:
        if call.on_failure == "propagate":
            raise error
        await tell_observers(graph, f"{call.hook}:{call.plugin}", error, message)

    with trio.move_on_after(math.inf if step.timeout is None else step.timeout) as scope:
        answer, _ = await firstresult(step.calls, values, unlimited, failed)
    if scope.cancelled_caught:
        raise TooSlowError(f"stage `{step.id}` took longer than {step.timeout:g} seconds", help=MORE_TIME)
    if (not answer if step.falsy else answer is None) and step.default is not None:
        answer = step.default(values)
    return str(answer if answer is not None else "") or origin_of(message)


async def admitted(calls: Calls, values: Mapping[str, Any]) -> str | None:
    """What the first plugin with an opinion says becomes of a message; None when none has one.

    Raises what a plugin raises, `HookError` for what is none of `ACTIONS`, and `TooSlowError` when they take longer
    than `ADMISSION_PATIENCE`.
    """

    async def failed(call: Call, error: Exception) -> None:
        raise error

    with trio.move_on_after(ADMISSION_PATIENCE):
        action, who = await firstresult(calls, values, unlimited, failed)
        if action is not None and action not in ACTIONS:
            what = f"plugin `{who}` wants `{action:.40}` done with a message, which nobody can"
            raise HookError(what, hook="admit_message", plugin=who, help=f"it has to be one of {', '.join(ACTIONS)}")
        answer: str | None = action
        return answer
    raise TooSlowError(f"hook `admit_message` took longer than {ADMISSION_PATIENCE:g} seconds")
