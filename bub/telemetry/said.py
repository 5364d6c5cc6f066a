"""What people, models and tools have said, in the shape that the GenAI conventions have for it.

The shapes are `gen-ai-input-messages.json` and `gen-ai-output-messages.json` beside the page that `names.py` names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any


def as_input(messages: Iterable[Any]) -> list[dict[str, Any]]:
    """The messages of a request, except the system prompt, which has an attribute of its own."""
    return [_as_message(one) for one in messages if isinstance(one, Mapping) and one.get("role") != "system"]


def as_system(messages: Iterable[Any]) -> list[dict[str, Any]]:
    """The system prompt of a request."""
    told = [one for one in messages if isinstance(one, Mapping) and one.get("role") == "system"]
    return [part for one in told for part in _parts_of(one.get("content"))]


def as_output(text: str, calls: Sequence[Any], finish_reason: str | None) -> list[dict[str, Any]]:
    """An answer: its text, and the calls that it asks for."""
    parts: list[dict[str, Any]] = [{"type": "text", "content": text}] if text else []
    parts += [{"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.asked} for call in calls]
    return [{"role": "assistant", "parts": parts, "finish_reason": finish_reason or "stop"}]


def as_texts(role: str, texts: Iterable[str]) -> list[dict[str, Any]]:
    """Return strings as messages of one who said them."""
    return [{"role": role, "parts": [{"type": "text", "content": text}]} for text in texts]


def _as_message(message: Mapping[str, Any]) -> dict[str, Any]:
    role = str(message.get("role") or "user")
    if role == "tool":
        answer = {"type": "tool_call_response", "id": message.get("tool_call_id"), "response": message.get("content")}
        return {"role": role, "parts": [answer]}
    parts = list(_parts_of(message.get("content")))
    for call in message.get("tool_calls") or ():
        function = call.get("function") if isinstance(call, Mapping) else None
        named = function if isinstance(function, Mapping) else {}
        arguments = named.get("arguments")
        parts.append({"type": "tool_call", "id": call.get("id"), "name": named.get("name"), "arguments": arguments})
    return {"role": role, "parts": parts}


def _parts_of(content: Any) -> Iterator[dict[str, Any]]:
    """The parts of a content; of a picture or a file only that it is one."""
    if isinstance(content, str):
        yield {"type": "text", "content": content}
        return
    for part in content if isinstance(content, list | tuple) else ():
        if isinstance(part, Mapping) and isinstance(part.get("text"), str):
            yield {"type": "text", "content": part["text"]}
        elif isinstance(part, Mapping):
            yield {"type": str(part.get("type") or "other")}
