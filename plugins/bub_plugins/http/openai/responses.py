"""An answer in the words of the Responses API: whole, or as events."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from bub_plugins.http.openai.asked import Asked
from bub_plugins.http.openai.errors import ApiError
from bub_plugins.http.openai.outcome import FILTERED, LENGTH, Call, Outcome
from bub_plugins.http.openai.sse import event

_INCOMPLETE = {LENGTH: "max_output_tokens", FILTERED: "content_filter"}
_ERRORS = {"rate_limit_exceeded": "rate_limit_exceeded"}
"""The codes that an error inside of a response may have; the others are `server_error` there."""


class ResponseWriter:
    """Writes one answer. What it gives of a stream is text, each piece whole events with their numbers."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._id = f"resp_{uuid4().hex}"
        self._message_id = f"msg_{uuid4().hex}"
        self._created = int(time.time())
        self._number = 0
        self._parts: list[str] = []

    def whole(self, outcome: Outcome) -> dict[str, Any]:
        """Return the answer as one object."""
        incomplete = _INCOMPLETE.get(outcome.reason)
        response = self._response("incomplete" if incomplete else "completed")
        output = [self._message(outcome.text, "incomplete" if incomplete else "completed")] if outcome.text else []
        output += [_call(call, "completed") for call in outcome.calls]
        return {
            **response,
            "completed_at": None if incomplete else int(time.time()),
            "incomplete_details": {"reason": incomplete} if incomplete else None,
            "output": output,
            "usage": _usage(outcome),
        }

    def begin(self) -> str:
        """Return what a stream begins with."""
        response = self._response("in_progress")
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    def text(self, delta: str) -> str:
        """Return a piece of the answer."""
        begun = "" if self._parts else "".join(self._begin_message())
        self._parts.append(delta)
        return begun + self._event("response.output_text.delta", **self._place, delta=delta, logprobs=[])

    def end(self, outcome: Outcome, rest: str) -> str:
        """Return the end of a stream; `rest` is what of the text was not written yet."""
        return "".join(self._end(outcome, rest))

    def fail(self, error: ApiError) -> str:
        """Return the end of a stream whose turn failed."""
        code = _ERRORS.get(error.code or "", "server_error")
        failed = {**self._response("failed"), "error": {"code": code, "message": str(error)}}
        return self._event("error", code=error.code or code, message=str(error), param=error.param) + self._event(
            "response.failed", response=failed
        )

    def _end(self, outcome: Outcome, rest: str) -> Iterator[str]:
        if rest:
            yield self.text(rest)
        whole = self.whole(outcome)
        first = 0
        if self._parts:
            text = "".join(self._parts)
            message = self._message(text, "incomplete" if outcome.reason in _INCOMPLETE else "completed")
            [part] = message["content"]
            yield self._event("response.output_text.done", **self._place, text=text, logprobs=[])
            yield self._event("response.content_part.done", **self._place, part=part)
            yield self._event("response.output_item.done", output_index=0, item=message)
            whole["output"] = [message, *(item for item in whole["output"] if item["type"] != "message")]
            first = 1
        calls = [item for item in whole["output"] if item["type"] == "function_call"]
        for index, item in enumerate(calls, start=first):
            yield from self._tell_call(item, index)
        kind = "response.completed" if whole["status"] == "completed" else "response.incomplete"
        yield self._event(kind, response=whole)

    def _begin_message(self) -> Iterator[str]:
        empty = {**self._message("", "in_progress"), "content": []}
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        yield self._event("response.output_item.added", output_index=0, item=empty)
        yield self._event("response.content_part.added", **self._place, part=part)

    def _tell_call(self, item: dict[str, Any], index: int) -> Iterator[str]:
        place = {"item_id": item["id"], "output_index": index}
        begun = {**item, "arguments": "", "status": "in_progress"}
        yield self._event("response.output_item.added", output_index=index, item=begun)
        yield self._event("response.function_call_arguments.delta", **place, delta=item["arguments"])
        done = {"name": item["name"], "arguments": item["arguments"]}
        yield self._event("response.function_call_arguments.done", **place, **done)
        yield self._event("response.output_item.done", output_index=index, item=item)

    @property
    def _place(self) -> dict[str, Any]:
        return {"item_id": self._message_id, "output_index": 0, "content_index": 0}

    def _message(self, text: str, status: str) -> dict[str, Any]:
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        return {
            "id": self._message_id,
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": [part],
        }

    def _response(self, status: str) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": None,
            "model": self._asked.model,
            "output": [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "previous_response_id": None,
            "store": False,
            "text": {"format": {"type": "text"}},
            "top_p": None,
            "truncation": "disabled",
            "usage": None,
            "user": None,
            **self._asked.echo,
        }

    def _event(self, kind: str, **data: Any) -> str:
        number, self._number = self._number, self._number + 1
        return event({"type": kind, "sequence_number": number, **data}, kind)


def _call(call: Call, status: str) -> dict[str, Any]:
    return {
        "id": f"fc_{uuid4().hex}",
        "type": "function_call",
        "status": status,
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
    }


def _usage(outcome: Outcome) -> dict[str, Any]:
    return {
        "input_tokens": outcome.sent,
        "input_tokens_details": {"cached_tokens": outcome.cached, "cache_write_tokens": 0},
        "output_tokens": outcome.received,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": outcome.sent + outcome.received,
    }
