"""The kinds as code: how the implementations of one hook point are called and what they come to together.

Each kind is one function over `Calls`. What may take time goes through `wait`, which puts a limit on it; an
implementation that fails goes to `failed`, which raises or goes on as the policy says. `trio.Cancelled` passes
through every one of them.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import trio

from bub.binding import AS_THEY_ARE, Call, Calls, Manner, Values, pause
from bub.errors import BubError, HookTypeError
from bub.frozen import thaw
from bub.log import log_exception, log_warning
from bub.streaming import AsyncStreamEvents, StreamEvent
from bub.waiting import PLAIN, Expired, Wait, is_awaitable

CLOSING_PATIENCE = 5.0
"""How long, in seconds, a stream may take to close."""


Failed: TypeAlias = Callable[[Call, Exception], Awaitable[None]]
"""Told of an implementation that failed: raises, or returns so that the kind goes on without it."""


# The kinds.


async def firstresult(calls: Calls, values: Values, wait: Wait, failed: Failed) -> tuple[Any, str]:
    """The first answer that is not None and the plugin that gave it; (None, "") when nobody answered (H6)."""
    arguments = calls.arguments(values)
    for call in calls.items:
        try:
            value = call.function(*arguments[call.signature])
            if type(value) not in PLAIN and is_awaitable(value):
                value = await wait(value)
            if value is not None:
                return call.checked(value), call.plugin
        except Exception as error:  # noqa: BLE001 (the policy decides)
            await failed(call, error)
    return None, ""


async def broadcast(calls: Calls, values: Values, wait: Wait, failed: Failed) -> list[Any]:
    """What every implementation returned, in call order, None included (H8); one that failed has no part in it."""
    arguments = calls.arguments(values)
    results = []
    for call in calls.items:
        try:
            value = call.function(*arguments[call.signature])
            if type(value) not in PLAIN and is_awaitable(value):
                value = await wait(value)
            results.append(value if value is None or call.returns is None else call.checked(value))
        except Exception as error:  # noqa: BLE001 (the policy decides)
            await failed(call, error)
    return results


async def broadcast_shielded(calls: Calls, values: Values, seconds: float, failed: Failed) -> list[Any]:
    """`broadcast` for a clean-up: nothing cancels it, and each implementation has `seconds` to itself.

    One scope serves them all for as long as nobody's time is up: opening one for each costs more than most
    clean-ups. Its deadline is moved on once a hundredth of the time has passed, which is added for everybody.
    """
    arguments = calls.arguments(values)
    results = []
    slack = seconds / 100 if len(calls.items) > 1 else 0.0
    position = 0
    while position < len(calls.items):
        armed = -math.inf
        with trio.CancelScope(shield=True) as scope:
            for call in calls.items[position:]:
                position += 1
                try:
                    value = call.function(*arguments[call.signature])
                    if type(value) not in PLAIN and is_awaitable(value):
                        now = trio.current_time()
                        if now - armed > slack:
                            armed, scope.deadline = now, now + seconds + slack
                        value = await value
                    results.append(value if value is None or call.returns is None else call.checked(value))
                except Exception as error:  # noqa: BLE001 (the policy decides)
                    await failed(call, error)
                if scope.cancel_called:
                    break  # one that shielded itself has outstayed its time; the next one gets a scope of its own
        if scope.cancelled_caught:
            late = calls.items[position - 1]
            await failed(late, trio.TooSlowError(f"plugin `{late.plugin}` took longer than {seconds:g} seconds"))
    return results


async def observer(calls: Calls, values: Values, wait: Wait, failed: Failed) -> None:
    """Every implementation is told, one after another."""
    arguments = calls.arguments(values)
    for call in calls.items:
        try:
            value = call.function(*arguments[call.signature])
            if is_awaitable(value):
                await wait(value)
        except Exception as error:  # noqa: BLE001 (the policy decides)
            await failed(call, error)


async def void(calls: Calls, values: Values, wait: Wait, failed: Failed) -> None:
    """Every implementation is told, all at once; all have ended when this returns.

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
    expired: Expired | None = None
    if pending:
        try:
            await wait(_together(pending, failures))
        except trio.TooSlowError as late:  # they all began at once, so the time of each was up
            failures += [(call, late) for call, _ in pending]
        except Expired as up:
            expired = up
    first: Exception | None = None
    for call, failure in failures:
        try:
            await failed(call, failure)
        except Exception as error:  # noqa: BLE001 (the first is raised when all have been told)
            if first is None:
                first = error
            else:
                log_exception("hook.failed", error, hook=call.hook, adapter=call.plugin)
    if first is not None:
        raise first
    if expired is not None:
        raise expired


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


async def modifying(calls: Calls, values: Values, wait: Wait, failed: Failed) -> dict[str, Any]:
    """What the implementations want changed: per key the first value that is not None.

    Texts that are to stand in front of something, or behind it, take nothing from each other: where several want that,
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


JOINED = ("prepend_", "append_")
"""How keys of a `modifying` point begin that add a text to another one."""

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


BROKEN_GATE = "This could not be checked, so it was not done."
"""What a person is told when a gate itself broke; the detail is in the log."""


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a gate did not allow: the reason for the person, who said so, and whether the gate itself broke."""

    reason: str
    plugin: str
    broken: bool = False


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


# Streams.

Tell: TypeAlias = Callable[[StreamEvent], Awaitable[None]]
"""Told of each event of a stream, as it comes."""


@dataclass(slots=True)
class Pulled:
    """What a stream has come to so far: its text, and whether anything came at all."""

    parts: list[str]
    begun: bool = False
    heard: bool = True
    """Whether anybody listens to the events of a plain text."""

    def add(self, delta: str) -> None:
        """Take a piece of the text."""
        self.begun = True
        self.parts.append(delta)

    @property
    def text(self) -> str:
        return "".join(self.parts)


async def stream(
    calls: Calls,
    values: Values,
    wait: Wait,
    failed: Failed,
    tell: Tell | None,
    pulled: Pulled,
    manner: Manner = AS_THEY_ARE,
) -> tuple[str | None, str]:
    """The text of the first implementation that answers, told event by event, and its plugin (H25-H29).

    A plain text counts as a stream of one event; None passes the question on, whatever form the next one answers
    in. `pulled` holds what came so far even when this is cancelled. An implementation that fails before its first
    event is asked again as `manner` says; one that fails later, where the policy goes on without it, has answered
    with its text so far.
    """
    arguments = calls.arguments(values)
    for call in calls.items:
        for attempt in range(manner.retries + 1):
            try:
                value = call.function(*arguments[call.signature])
                if is_awaitable(value):
                    value = await wait(value)
                if value is None:
                    break
                if type(value) is str and call.form != "stream":
                    pulled.add(value)
                    if tell is not None and pulled.heard:
                        await wait(tell(StreamEvent.text(value)))
                    return value, call.plugin
                await wait(_pull(call, as_events(call, value), tell, pulled))
            except Exception as error:  # noqa: BLE001 (tried again or left to the policy)
                if attempt < manner.retries and not pulled.begun:
                    log_warning("hook.retry", hook=call.hook, adapter=call.plugin, attempt=attempt + 1, error=error)
                    await wait(pause(manner, attempt))
                    continue
                await failed(call, error)
                if not pulled.begun:
                    break
            return pulled.text, call.plugin
    return None, ""


def stream_error(data: Mapping[str, Any]) -> BubError:
    """The error that an `error` event tells of (BEHAVIOURS T19)."""
    return BubError(str(data.get("message") or data.get("kind") or "the model reported an error"))


def as_events(call: Call, value: Any) -> AsyncStreamEvents:
    """What an implementation answered, as a stream; HookTypeError when it is neither (BEHAVIOURS H29)."""
    if call.form != "stream" and isinstance(value, str):
        return AsyncStreamEvents.of_text(value)
    if call.form != "text":
        if isinstance(value, AsyncStreamEvents):
            return value
        if isinstance(value, AsyncIterator):
            return AsyncStreamEvents(value)
    expected = {"text": "str", "stream": "AsyncStreamEvents", "either": "str or AsyncStreamEvents"}[call.form]
    raise HookTypeError(call.hook, call.plugin, f"{expected} or None", value)


async def _pull(call: Call, events: AsyncStreamEvents, tell: Tell | None, pulled: Pulled) -> None:
    parts = pulled.parts
    try:
        async for event in events:
            if not isinstance(event, StreamEvent):
                raise HookTypeError(call.hook, call.plugin, "a stream of StreamEvent", event)
            if event.kind == "text":
                delta = event.data.get("delta")
                if not isinstance(delta, str):
                    raise HookTypeError(call.hook, call.plugin, 'text events with {"delta": str}', delta)
                parts.append(delta)
            pulled.begun = True
            if tell is not None:
                await tell(event)
    finally:
        await close_stream(events)


async def close_stream(events: AsyncStreamEvents) -> None:
    """Close a stream whatever else is cancelled, within `CLOSING_PATIENCE`; a failure to close is only logged."""
    with trio.CancelScope(deadline=trio.current_time() + CLOSING_PATIENCE, shield=True) as scope:
        try:
            await events.aclose()
        except Exception as error:  # noqa: BLE001 (it must not mask how the stream ended)
            log_exception("stream.close_failed", error)
    if scope.cancelled_caught:
        log_warning("stream.close_timed_out", seconds=CLOSING_PATIENCE)


# How a broadcast combines.


def merge_low_to_high(results: Sequence[Any]) -> dict[str, Any]:
    """One dict of all dicts; high priority wins per key (BEHAVIOURS T8)."""
    merged: dict[str, Any] = {}
    for part in reversed(results):
        if part:
            merged.update(part)
    return merged


def join_low_to_high(results: Sequence[Any]) -> str:
    """The texts that are not empty, low priority first, with a blank line between (BEHAVIOURS T34)."""
    return "\n\n".join(text for text in reversed(results) if text)
