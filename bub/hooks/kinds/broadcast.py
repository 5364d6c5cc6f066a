"""`broadcast`: one after another, all, and what they return is combined."""

from __future__ import annotations

from typing import Any

import trio

from bub.base.waiting import PLAIN, Wait, is_awaitable, unlimited
from bub.hooks.binding import Calls, Values, too_slow
from bub.hooks.facts import KINDS
from bub.hooks.kinds.runnable import DEFAULTED, DONE, Failed, Outcome, RunnableKind, Stage


async def broadcast(calls: Calls, values: Values, wait: Wait, failed: Failed) -> list[Any]:
    """What every implementation returned, in call order, None included (H8); one that failed has no part in it."""
    arguments = calls.arguments(values)
    results = []
    for call in calls.items:
        try:
            value = call.function(*arguments[call.signature])
            if type(value) not in PLAIN and is_awaitable(value):
                value = await (value if wait is unlimited else wait(value))  # many at once: a coroutine less for each
            results.append(value if value is None or call.returns is None else call.check(value))
        except Exception as error:  # noqa: BLE001 (the policy decides)
            await failed(call, error)
    return results


async def broadcast_shielded(calls: Calls, values: Values, seconds: float, failed: Failed) -> list[Any]:
    """`broadcast` for a clean-up: nothing cancels it, and each implementation has `seconds` to itself.

    One scope serves them all for as long as nobody's time is up: opening one for each costs more than most
    clean-ups. Its deadline is moved on once a hundredth of the time has passed, which is added for everybody.
    Nothing interrupts a plain function, so it is asked afterwards how long it took; the clock is read once for each.
    """
    arguments = calls.arguments(values)
    results = []
    slack = seconds / 100 if len(calls.items) > 1 else 0.0
    read_clock = trio.lowlevel.current_clock().current_time
    position = 0
    while position < len(calls.items):
        began = armed = read_clock()
        until = armed + seconds + slack
        with trio.CancelScope(deadline=until, shield=True) as scope:
            for call in calls.items[position:]:
                position += 1
                try:
                    value = call.function(*arguments[call.signature])
                    if type(value) not in PLAIN and is_awaitable(value):
                        if began - armed > slack:
                            armed, until = began, began + seconds + slack
                            scope.deadline = until
                        value = await value
                        began = read_clock()
                        if began >= until:  # it shielded itself, or awaited nothing
                            raise too_slow(call, seconds)
                    else:
                        before, began = began, read_clock()
                        if began - before > seconds:
                            raise too_slow(call, seconds)
                    results.append(value if value is None or call.returns is None else call.check(value))
                except Exception as error:  # noqa: BLE001 (the policy decides)
                    await failed(call, error)
                    began = read_clock()
                if began >= until:
                    break  # the next one gets a scope of its own
        if scope.cancelled_caught:
            late = calls.items[position - 1]
            await failed(late, too_slow(late, seconds))
    return results


def finish(stage: Stage, values: list[Any], came: list[Any], each: bool) -> Outcome:
    """Keep what the results give together, or what the stage yields if that is nothing."""
    combine = stage.combine
    if combine is None:
        return DONE
    value = combine.together(came)
    # An empty value says nobody answered, unless somebody did and answered with just that.
    if not value and (stage.falsy or not combine.is_answer_if_empty or came.count(None) == len(came)):
        stage.yield_nothing(values, each)
        return DEFAULTED
    stage.put(values, value, each)
    return DONE


BROADCAST = RunnableKind(
    KINDS["broadcast"], broadcast, finish, unanswered=list, late_fired=list, shielded=broadcast_shielded
)
