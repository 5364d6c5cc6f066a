"""`stream`: picks as `firstresult` does, then pulls the answer event by event."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import msgspec
import trio

from bub.base.waiting import Wait, is_awaitable
from bub.errors import BubError, HookTypeError
from bub.hooks.binding import AS_THEY_ARE, Call, Calls, Manner, Values, pause
from bub.hooks.facts import KINDS
from bub.hooks.kinds.firstresult import answer_of, yield_default
from bub.hooks.kinds.firstresult import finish as finish_answer
from bub.hooks.kinds.runnable import Failed, Outcome, RunnableKind, Stage
from bub.hooks.kinds.silence import Silence
from bub.log import log_exception, log_warning
from bub.streaming import AsyncStreamEvents, StreamEvent

CLOSING_PATIENCE = 5.0
"""How long, in seconds, a stream may take to close."""

Tell: TypeAlias = Callable[[StreamEvent], Awaitable[None]]
"""Told of each event of a stream, as it comes."""


class Pulled(msgspec.Struct):
    """What a stream has given so far: its text, and whether anything came at all."""

    parts: list[str]
    begun: bool = False
    heard: bool = True
    """Whether anybody listens to the events of a plain text."""
    silence: Silence | None = None
    """What bounds how long it may say nothing."""

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
    """Return the text of the first implementation that answers, and its plugin; `tell` gets each event (H25-H29).

    A plain text counts as a stream of one event; None passes the question on, whatever form the next one answers
    in. `pulled` holds what came so far even when this is cancelled. An implementation that fails before its first
    event is asked again as `manner` says; one that fails later, if the policy goes on without it, has answered
    with its text so far.
    """
    arguments = calls.arguments(values)
    for call in calls.items:
        for attempt in range(manner.retries + 1):
            try:
                value = call.function(*arguments[call.signature])
                if is_awaitable(value):
                    value = await wait(_open(call, value, pulled))
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


def _open(call: Call, opening: Awaitable[Any], pulled: Pulled) -> Awaitable[Any]:
    """The wait for a stream to be open; a text is whole when it comes, so how long that takes is no silence."""
    if pulled.silence is None or call.form != "stream":
        return opening
    return pulled.silence.wait(f"`{call.plugin}`", opening)


async def _pull(call: Call, events: AsyncStreamEvents, tell: Tell | None, pulled: Pulled) -> None:
    parts = pulled.parts
    if pulled.silence is not None:
        events = pulled.silence.within(f"`{call.plugin}`", events)
    try:
        async for event in events:
            if not isinstance(event, StreamEvent):
                raise HookTypeError(call.hook, call.plugin, "a stream of StreamEvent", event)
            if event.kind == "text":
                delta = event.data.get("delta")
                if not isinstance(delta, str):
                    raise HookTypeError(call.hook, call.plugin, 'text events with {"delta": str}', delta)
                parts.append(delta)
            pulled.begun = pulled.begun or event.kind not in ("waiting", "compaction", "notice")
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
    events.state.error = None  # its reader has it; its traceback names the stream: the two would keep each other


def finish(stage: Stage, values: list[Any], came: tuple[str | None, str], each: bool) -> Outcome:
    """Keep the text, or what the stage yields without one."""
    text, _ = came
    if text is None or (stage.falsy and not text):
        _put_no_text(stage, values, each)
    return finish_answer(stage, values, came, each)


def _yield_default(stage: Stage, values: list[Any], each: bool) -> Outcome:
    _put_no_text(stage, values, each)
    return yield_default(stage, values, each)


def _put_no_text(stage: Stage, values: list[Any], each: bool) -> None:
    if not stage.has_default:  # the text so far, for whoever cleans up after it
        stage.put(values, "", each)


STREAM = RunnableKind(KINDS["stream"], stream, finish, late=_yield_default, fired=answer_of, pulls=True)
