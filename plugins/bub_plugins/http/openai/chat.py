"""An answer in the words of chat completions: whole, or as chunks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from bub_plugins.http.openai.asked import Asked
from bub_plugins.http.openai.errors import ApiError
from bub_plugins.http.openai.outcome import Call, Outcome
from bub_plugins.http.openai.sse import DONE, event


class ChatWriter:
    """Writes one answer. What it gives of a stream is text, each piece whole events."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._about = {"id": f"chatcmpl-{uuid4().hex}", "created": int(time.time()), "model": asked.model}

    def whole(self, outcome: Outcome) -> dict[str, Any]:
        """Return the answer as one object."""
        calls = [_call(call) for call in outcome.calls]
        content = outcome.text or (None if calls else "")
        said = {"role": "assistant", "content": content, "refusal": None, **({"tool_calls": calls} if calls else {})}
        choice = {"index": 0, "message": said, "logprobs": None, "finish_reason": outcome.reason}
        return {**self._about, "object": "chat.completion", "choices": [choice], "usage": _usage(outcome)}

    def begin(self) -> str:
        """Return what a stream begins with."""
        return self._chunk({"role": "assistant", "content": "", "refusal": None})

    def text(self, delta: str) -> str:
        """Return a piece of the answer."""
        return self._chunk({"content": delta})

    def end(self, outcome: Outcome, rest: str) -> str:
        """Return the end of a stream; `rest` is what of the text was not written yet."""
        return "".join(self._end(outcome, rest))

    def fail(self, error: ApiError) -> str:
        """Return the end of a stream whose turn failed."""
        return event(error.as_dict())

    def _end(self, outcome: Outcome, rest: str) -> Iterator[str]:
        if rest:
            yield self.text(rest)
        for index, call in enumerate(outcome.calls):
            yield self._chunk({"tool_calls": [{"index": index, **_call(call)}]})
        yield self._chunk({}, outcome.reason)
        if self._asked.include_usage:
            yield event({**self._about, "object": "chat.completion.chunk", "choices": [], "usage": _usage(outcome)})
        yield DONE

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        counts = {"usage": None} if self._asked.include_usage else {}
        return event({**self._about, "object": "chat.completion.chunk", "choices": [choice], **counts})


def _call(call: Call) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _usage(outcome: Outcome) -> dict[str, Any]:
    return {
        "prompt_tokens": outcome.sent,
        "completion_tokens": outcome.received,
        "total_tokens": outcome.sent + outcome.received,
        "prompt_tokens_details": {"cached_tokens": outcome.cached},
    }
