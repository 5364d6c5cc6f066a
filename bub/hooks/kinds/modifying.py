"""`modifying`: one after another, all, each on the same original, and each says what to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bub.base.waiting import Wait, is_awaitable
from bub.envelope import keep_address
from bub.errors import HookTypeError
from bub.hooks.binding import Calls, Values
from bub.hooks.facts import KINDS
from bub.hooks.frozen import thaw
from bub.hooks.kinds.runnable import DONE, Failed, Outcome, RunnableKind, Stage
from bub.log import log_warning

JOINED = ("prepend_", "append_")
"""How keys of a `modifying` point begin that add a text to another one."""


async def modifying(calls: Calls, values: Values, wait: Wait, failed: Failed) -> dict[str, Any]:
    """Collect what the implementations want changed: per key the first value that is not None.

    Strings that are to be in front of something, or behind it, take nothing from each other: if several want that,
    theirs are joined in call order (BEHAVIOURS E16).
    """
    arguments = calls.arguments(values)
    merged: dict[str, Any] = {}
    for call in calls.items:
        try:
            value = call.function(*arguments[call.signature])
            if is_awaitable(value):
                value = await wait(value)
            if value is None:
                continue
            if not isinstance(value, Mapping):
                raise HookTypeError(call.hook, call.plugin, "dict or None", value)
            parts = value if type(value) is dict else dict(value)  # a mapping of others may fail while it is read
        except Exception as error:  # noqa: BLE001 (the policy decides)
            await failed(call, error)
            continue
        for key, part in parts.items():
            if part is None:
                continue
            if key in merged and isinstance(key, str) and key.startswith(JOINED):
                merged[key] = "\n\n".join(str(text) for text in (merged[key], part) if text)
            else:
                merged.setdefault(key, thaw(part))
    return merged


def finish(stage: Stage, values: list[Any], came: dict[str, Any], each: bool) -> Outcome:
    """Apply what is wanted as the stage's `changes` says; what that does not name is left out and logged."""
    known: set[str] = set()
    for name, before, after in stage.changes:
        value = thaw(came.get(name, values[before]))
        known.add(name)
        if value is None or isinstance(value, str):
            known.update((f"prepend_{name}", f"append_{name}"))
            parts = (came.get(f"prepend_{name}"), value, came.get(f"append_{name}"))
            value = "\n\n".join(str(part) for part in parts if part) if any(parts) else value
        elif name == "message" and name in came:
            value = keep_address(value, values[before])
        values[after] = value
    for name in came.keys() - known:
        log_warning("hook.change_not_possible", stage=stage.id, value=name)
    return DONE


MODIFYING = RunnableKind(KINDS["modifying"], modifying, finish, unanswered=dict, late_fired=dict)
