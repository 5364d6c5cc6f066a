"""`gate`: one after another, until one denies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bub.base.waiting import Wait, is_awaitable
from bub.errors import HookTypeError
from bub.hooks.binding import Calls, Values
from bub.hooks.facts import KINDS
from bub.hooks.kinds.runnable import DONE, Failed, Outcome, RunnableKind, Stage
from bub.hooks.kinds.verdicts import BROKEN_GATE, Denial


async def gate(calls: Calls, values: Values, wait: Wait, failed: Failed) -> Denial | None:
    """None when all implementations allow; else the first denial. One that breaks denies (H34, decision 2)."""
    arguments = calls.arguments(values)
    for call in calls.items:
        try:
            value = call.function(*arguments[call.signature])
            if is_awaitable(value):
                value = await wait(value)
            if value is None:
                continue
            reason = value.get("deny") if isinstance(value, Mapping) and len(value) == 1 else None
            if not isinstance(reason, str):
                raise HookTypeError(call.hook, call.plugin, '{"deny": "reason"} or None', value)
        except Exception as error:  # noqa: BLE001 (whatever breaks a gate, it denies)
            await failed(call, error)
            return Denial(BROKEN_GATE, call.plugin, broken=True)
        return Denial(reason or "This is not allowed here.", call.plugin)
    return None


def finish(stage: Stage, values: list[Any], came: Denial | None, each: bool) -> Outcome:
    """Hand on a denial, if there is one, as the verdict."""
    return DONE if came is None else (came, came.plugin, "denied")


def deny_late(stage: Stage, values: list[Any], each: bool) -> Outcome:
    """Deny: a gate whose time is up has not allowed."""
    return Denial(BROKEN_GATE, "", broken=True), "", "timeout"


def as_payload(came: Denial | None) -> dict[str, str] | None:
    """Return what the caller that fires a gate gets: the denial as a gate itself would say it."""
    return None if came is None else {"deny": came.reason}


def deny_late_fired() -> dict[str, str]:
    """Return what the caller that fires a gate gets when its time is up."""
    return {"deny": BROKEN_GATE}


GATE = RunnableKind(KINDS["gate"], gate, finish, late=deny_late, fired=as_payload, late_fired=deny_late_fired)
