"""`claiming`: one after another, until one claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bub.base.waiting import Wait, is_awaitable
from bub.errors import HookTypeError
from bub.hooks.binding import Calls, Values
from bub.hooks.facts import KINDS
from bub.hooks.kinds.runnable import DONE, Failed, Outcome, RunnableKind, Stage, no_part

UNCLAIMED: Mapping[str, Any] = {"handled": False}


async def claiming(calls: Calls, values: Values, wait: Wait, failed: Failed) -> tuple[Mapping[str, Any], str]:
    """The first claim, whole, and who made it; ({"handled": False}, "") when nobody claimed."""
    arguments = calls.arguments(values)
    for call in calls.items:
        try:
            value = call.function(*arguments[call.signature])
            if is_awaitable(value):
                value = await wait(value)
            if value is None:
                continue
            if not isinstance(value, Mapping):
                raise HookTypeError(call.hook, call.plugin, '{"handled": …} or None', value)
            if value.get("handled"):
                return value, call.plugin
        except Exception as error:  # noqa: BLE001 (the policy decides)
            await failed(call, error)
    return dict(UNCLAIMED), ""


def finish(stage: Stage, values: list[Any], came: tuple[Mapping[str, Any], str], each: bool) -> Outcome:
    """Hand on a claim, if there is one, as the verdict."""
    claim, who = came
    return (claim, who, "claimed") if claim.get("handled") else DONE


def claim_of(came: tuple[Mapping[str, Any], str]) -> Mapping[str, Any]:
    """Return the claim alone, as the caller that fires a point gets it."""
    claim, _ = came
    return claim


def report_unclaimed() -> dict[str, Any]:
    """Return the result when nobody claims."""
    return dict(UNCLAIMED)


CLAIMING = RunnableKind(
    KINDS["claiming"],
    claiming,
    finish,
    late=no_part,
    fired=claim_of,
    unanswered=report_unclaimed,
    late_fired=report_unclaimed,
)
