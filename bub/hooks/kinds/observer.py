"""`observer`: one after another, all, and nothing comes back."""

from __future__ import annotations

from typing import Any

from bub.base.waiting import Wait, is_awaitable
from bub.hooks.binding import Calls, Values
from bub.hooks.facts import KINDS
from bub.hooks.kinds.runnable import DONE, Failed, Outcome, RunnableKind, Stage, no_part


async def observer(calls: Calls, values: Values, wait: Wait, failed: Failed) -> None:
    """Call every implementation, one after another."""
    arguments = calls.arguments(values)
    for call in calls.items:
        try:
            value = call.function(*arguments[call.signature])
            if is_awaitable(value):
                await wait(value)
        except Exception as error:  # noqa: BLE001 (the policy decides)
            await failed(call, error)


def finish(stage: Stage, values: list[Any], came: None, each: bool) -> Outcome:
    """Note that all have been called."""
    return DONE


OBSERVER = RunnableKind(KINDS["observer"], observer, finish, late=no_part)
