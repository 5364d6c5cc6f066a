"""`void`: all at once, and nothing comes back."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import trio

from bub.base.waiting import Expired, Wait, is_awaitable
from bub.hooks.binding import Call, Calls, Values
from bub.hooks.facts import KINDS
from bub.hooks.kinds.runnable import DONE, Failed, Outcome, RunnableKind, Stage, no_part
from bub.log import log_exception


async def void(calls: Calls, values: Values, wait: Wait, failed: Failed) -> None:
    """Call every implementation, all at once; all have ended when this returns.

    Plain functions need no nursery. A failure keeps none of the others from running, a synchronous one neither.
    """
    arguments = calls.arguments(values)
    failures: list[tuple[Call, Exception]] = []
    pending: list[tuple[Call, Awaitable[Any]]] = []
    for call in calls.items:
        try:
            value = call.function(*arguments[call.signature])
        except Exception as error:  # noqa: BLE001 (told below, when all have ended)
            failures.append((call, error))
        else:
            if is_awaitable(value):
                pending.append((call, value))
    is_late = False
    if pending:
        try:
            await wait(_together(pending, failures))
        except trio.TooSlowError as late:  # they all began at once, so the time of each was up
            failures += [(call, late) for call, _ in pending]
        except Expired:
            is_late = True
    raised: list[Exception] = []
    while failures:
        try:
            await failed(*failures[0])
        except Exception as error:  # noqa: BLE001 (the first is raised when all have been told)
            if raised:
                log_exception("hook.failed", error, hook=failures[0][0].hook, adapter=failures[0][0].plugin)
            else:
                raised.append(error)
        del failures[0]
    if raised:
        raise raised.pop()  # no variable names it here: this frame is in its traceback
    if is_late:
        raise Expired


async def _together(pending: list[tuple[Call, Awaitable[Any]]], failures: list[tuple[Call, Exception]]) -> None:
    """Await all at once; who has ended is taken out of `pending`, who failed is put into `failures`."""
    interrupt: BaseException | None = None

    async def one(call: Call, awaitable: Awaitable[Any]) -> None:
        nonlocal interrupt
        try:
            await awaitable
        except trio.Cancelled:
            raise
        except Exception as error:  # noqa: BLE001 (told by the caller, when all have ended)
            failures.append((call, error))
        except BaseException as error:  # noqa: BLE001 (raised below by itself, not in a group)
            interrupt = error
            nursery.cancel_scope.cancel()
        pending.remove((call, awaitable))

    async with trio.open_nursery() as nursery:
        for call, awaitable in tuple(pending):
            nursery.start_soon(one, call, awaitable)
    if interrupt is not None:
        raise interrupt


def finish(stage: Stage, values: list[Any], came: None, each: bool) -> Outcome:
    """Note that all have ended."""
    return DONE


VOID = RunnableKind(KINDS["void"], void, finish, late=no_part)
