"""One answer of the model, as far as it has come: what it says and calls, and what became of the calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from bub.agent.calls.caller import ToolCall, ToolOutcome
from bub.agent.models.request import call_ids_in
from bub.agent.models.thoughts import thoughts_of
from bub.agent.models.usage import count_tokens
from bub.base.tracing.activity import Activity
from bub.errors import ModelError
from bub.pipeline.plan.providers import split_model
from bub.streaming import StreamEvent

LONGEST_NAME = 200
"""How many characters of a tool's name that a model calls are kept."""


class ModelAnswer(msgspec.Struct):
    """One answer of the model, as far as it has come, to one `request`."""

    request: dict[str, Any] = msgspec.field(default_factory=dict)
    parts: list[str] = msgspec.field(default_factory=list)
    thoughts: list[str] = msgspec.field(default_factory=list)
    signed: list[dict[str, Any]] = msgspec.field(default_factory=list)
    """The thoughts that go back to the provider as they are."""
    calls: list[ToolCall] = msgspec.field(default_factory=list)
    outcomes: list[ToolOutcome | None] = msgspec.field(default_factory=list)
    usage: dict[str, Any] | None = None
    finish_reason: str | None = None
    asked_at: float = msgspec.field(default_factory=perf_counter)
    activity: Activity | None = None
    """The request for it as whoever watches the turn sees it."""
    is_asked: bool = False
    """Whether a model was asked for it, and that was not counted yet."""
    is_last: bool = False
    """Whether a plugin said that the turn ends with it."""
    is_observed: bool = False
    """Whether `after_llm_call` was called for it."""
    is_noted: bool = False
    """Whether the journal has what it says and calls."""
    are_results_noted: bool = False

    @property
    def text(self) -> str:
        """What the answer says so far."""
        return "".join(self.parts)

    def with_thoughts(self, said: dict[str, Any]) -> dict[str, Any]:
        """Add to what the answer says what the model thought before."""
        by = ":".join(split_model(str(self.request.get("model") or "")))
        return {**said, **thoughts_of(by, "".join(self.thoughts), self.signed)}

    def keep(self, event: Any, messages: Sequence[Mapping[str, Any]]) -> StreamEvent | None:
        """Keep what an event says, and return the event that is passed on for it, if any.

        `messages` are those of the request: a call gets an id that none of them has. Raises ModelError for what is no
        event of a model.
        """
        if not isinstance(event, StreamEvent):
            raise _refuse(f"a {type(event).__name__} among its events")
        data = event.data
        match event.kind:
            case "text":
                if not isinstance(data.get("delta"), str):
                    raise _refuse("a text event without a text")
                self.parts.append(data["delta"])
            case "reasoning":
                self.thoughts.append(str(data.get("delta") or ""))
            case "tool_call":
                call = self._make_call(data, messages)
                self.calls.append(call)
                return StreamEvent("tool_call", {**data, "id": call.id, "name": call.name})
            case "usage":
                self.usage = dict(data)
            case "final":
                self.finish_reason = data.get("finish_reason")
                self.signed = list(data.get("thoughts") or ())
                if self.finish_reason == "length" and self.calls and self.calls[-1].arguments is None:
                    self.calls[-1] = replace(self.calls[-1], is_cut=True)
                return None
        return event

    def end(self, outcome: str, error: BaseException | None = None) -> ModelAnswer:
        """Note how the request ended and what it has cost, for whoever watches the turn; itself."""
        activity, tokens = self.activity, count_tokens(self.usage)
        if activity is None:
            return self
        activity.keep(answer=(self.text, self.calls, self.finish_reason))
        if self.usage:
            activity.data |= {"input": tokens.sent, "output": tokens.received}
            activity.data |= {"cache_read": tokens.read, "cache_written": tokens.written}
        if error is not None:
            activity.data["error"] = error.kind if isinstance(error, ModelError) else type(error).__name__
        activity.end(outcome, finish_reason=self.finish_reason)
        return self

    def as_response(self, error: Exception | None) -> dict[str, Any]:
        """Return the answer as `after_llm_call` gets it."""
        return {
            "text": self.text,
            "tool_calls": [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in self.calls],
            "usage": self.usage,
            "finish_reason": self.finish_reason,
            "took": perf_counter() - self.asked_at,
            "error": str(error) if error is not None else None,
        }

    def _make_call(self, data: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> ToolCall:
        call_id, arguments = data.get("id"), data.get("arguments")
        taken = call_ids_in(messages) | {call.id for call in self.calls}
        if not isinstance(call_id, str) or not call_id or call_id in taken:
            call_id = uuid4().hex[:9]
        return ToolCall(
            call_id,
            _cut_name(str(data.get("name") or "")),
            arguments if isinstance(arguments, Mapping) else None,
            str(data.get("raw") or ("" if arguments is None else arguments)),
            data.get("extra_content"),
        )


def _cut_name(name: str) -> str:
    """The name of a tool as far as anybody reads it: what a model makes up may have no end."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _refuse(what: str) -> ModelError:
    return ModelError(
        f"the model's answer has {what}",
        kind="bad_answer",
        provider="plugin",
        help="the plugin that brings the model has to give a stream of `StreamEvent`",
    )
