"""Model output as a stream of events, also if the model returns a plain text."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

_CUT: Mapping[str, str] = MappingProxyType(
    {
        "length": "the answer is cut: it reached the longest length that it may have (raise `max_tokens` in the "
        "settings, or ask the model to go on)",
        "content_filter": "the answer is cut: the content filter of the provider stopped it",
    }
)


class StreamEvent(msgspec.Struct, frozen=True):
    """One event of a model stream: its kind and its data.

    The kinds are "waiting", "compaction", "notice", "text", "reasoning", "tool_call", "tool_result", "plan", "usage",
    "error" and "final"; others pass through as they are (BEHAVIOURS T19).
    A `text` or `reasoning` event carries `{"delta": str}`, an `error` event `{"message": str, …}`, a `usage`
    event the provider's counts, a `waiting` event for how many `seconds` the model is not asked again and the
    `reason`, a `compaction` event the tokens `before` and `after` the conversation was summed up and a `text` that
    says so, a `notice` event a `text` for the person, such as what is wrong with a server, a `final` event
    `{"finish_reason": str | None}`; that of the agent has `steps`, `ok`, and for the whole
    turn `usage` and `cost`, if they are known; if a limit ended the turn, `cut` says which, and
    `compaction` if the conversation was summed up; `calls` go back to a program that asks as it would ask a model, and
    `problem` says why its request was refused. A `tool_call` event
    is one whole call: `{"id": str, "name": str, "arguments": dict | None, "raw": str}`, where `raw` is what the model
    wrote and `arguments` is None if that is no JSON object. A `plan` event has all `steps` of a plan, each with `step`,
    one line, and its `state`: "done", "doing" or "left".
    """

    kind: str
    data: Mapping[str, Any] = msgspec.field(default_factory=dict)

    @classmethod
    def text(cls, delta: str) -> StreamEvent:
        """Return an event for a piece of the answer."""
        return cls("text", {"delta": delta})

    def explain_cut(self) -> str | None:
        """Say to people why the answer that ends with this event is not whole; None if it is, or does not end here."""
        if self.kind != "final":
            return None
        return self.data.get("cut") or _CUT.get(str(self.data.get("finish_reason")))


class StreamState(msgspec.Struct):
    """What is known about a stream beside its events. The producer of the stream fills it in."""

    error: BaseException | None = None
    usage: dict[str, Any] | None = None


class AsyncStreamEvents:
    """A model stream: iterate it with `async for`, and close it with `aclose` if you leave early.

    `async_iterator` yields `StreamEvent` values. It is closed by whoever opened it; for a turn that is the engine.
    """

    __slots__ = ("_iterator", "state")

    def __init__(self, async_iterator: AsyncIterator[StreamEvent], state: StreamState | None = None) -> None:
        self._iterator = async_iterator
        self.state = state if state is not None else StreamState()

    @classmethod
    def of_text(cls, text: str) -> AsyncStreamEvents:
        """Return a stream of one `text` event, for a plain answer (BEHAVIOURS H27)."""
        return cls(_OneText(text))

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self._iterator

    def bound_silence(self, seconds: float) -> bool:
        """Let the producer of the events give up a model that is silent for so long; False if it cannot.

        Only the producer knows whether a silence is the model's, or that of a tool that runs.
        """
        bound = getattr(self._iterator, "bound_silence", None)
        if bound is None:
            return False
        bound(seconds)
        return True

    async def aclose(self) -> None:
        """Close the producer of the events; harmless if it is exhausted or closed already."""
        close = getattr(self._iterator, "aclose", None)
        if close is not None:
            await close()


class _OneText:
    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text: str | None = text

    def __aiter__(self) -> _OneText:
        return self

    async def __anext__(self) -> StreamEvent:
        if self._text is None:
            raise StopAsyncIteration
        text, self._text = self._text, None
        return StreamEvent.text(text)
