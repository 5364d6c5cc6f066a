"""What is asked about a message before it waits for its session: what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio

from bub.base.waiting import unlimited
from bub.errors import HookError
from bub.hooks.admission import ACTIONS
from bub.hooks.binding import Call, Calls
from bub.hooks.kinds.firstresult import firstresult
from bub.pipeline.run.failures import TooSlowError

ADMISSION_PATIENCE = 10.0
"""How long, in seconds, a plugin may think about what becomes of a message."""


async def ask_admission(calls: Calls, values: Mapping[str, Any]) -> str | None:
    """What the first plugin with an opinion says becomes of a message; None when none has one.

    Raises what a plugin raises, `HookError` for what is none of `ACTIONS`, and `TooSlowError` when they take longer
    than `ADMISSION_PATIENCE`.
    """

    async def reraise(call: Call, error: Exception) -> None:
        try:
            raise error
        finally:
            del error  # its traceback names this frame: the two would keep each other

    with trio.move_on_after(ADMISSION_PATIENCE):
        action, who = await firstresult(calls, values, unlimited, reraise)
        if action is not None and action not in ACTIONS:
            what = f"plugin `{who}` answered `{action:.40}`, which is not an action"
            raise HookError(what, hook="admit_message", plugin=who, help=f"it has to be one of {', '.join(ACTIONS)}")
        answer: str | None = action
        return answer
    raise TooSlowError(f"hook `admit_message` took longer than {ADMISSION_PATIENCE:g} seconds")
