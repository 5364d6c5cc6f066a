"""`firstresult`: one after another, until one answers."""

from __future__ import annotations

from typing import Any

from bub.base.waiting import PLAIN, Wait, is_awaitable
from bub.errors import NoAnswerError
from bub.hooks.binding import Calls, Values
from bub.hooks.facts import KINDS
from bub.hooks.kinds.runnable import DEFAULTED, LATE, Failed, Outcome, RunnableKind, Stage


async def firstresult(calls: Calls, values: Values, wait: Wait, failed: Failed) -> tuple[Any, str]:
    """The first answer that is not None and the plugin that gave it; (None, "") when nobody answered (H6)."""
    arguments = calls.arguments(values)
    for call in calls.items:
        try:
            value = call.function(*arguments[call.signature])
            if type(value) not in PLAIN and is_awaitable(value):
                value = await wait(value)
            if value is not None:
                return call.check(value), call.plugin
        except Exception as error:  # noqa: BLE001 (the policy decides)
            await failed(call, error)
    return None, ""


def finish(stage: Stage, values: list[Any], came: tuple[Any, str], each: bool) -> Outcome:
    """Keep the answer, or what the stage yields without one."""
    value, who = came
    if value is None or (stage.falsy and not value):
        yield_default(stage, values, each)
        return DEFAULTED
    stage.put(values, value, each)
    return None, who, "ok"


def yield_default(stage: Stage, values: list[Any], each: bool) -> Outcome:
    """Keep what the stage yields when nobody answered in time; raises NoAnswerError if it says nothing of that."""
    if not stage.has_default:
        raise NoAnswerError(stage.id, stage.hook)
    stage.yield_nothing(values, each)
    return LATE


def answer_of(came: tuple[Any, str]) -> Any:
    """Return the answer alone, as the caller that fires a point gets it."""
    value, _ = came
    return value


FIRSTRESULT = RunnableKind(KINDS["firstresult"], firstresult, finish, late=yield_default, fired=answer_of)
