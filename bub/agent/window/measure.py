"""About how many tokens the parts of a request are. What a provider counted corrects what is only estimated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from bub.agent.models.request import ToolSpec, calls_in
from bub.agent.models.usage import count_directions
from bub.tape.media import size_of

PICTURE = 1_600
"""The tokens of a picture: the most that providers count for a large one."""

_AROUND = 4
"""The tokens around a message."""

_AROUND_TOOL = 15
"""The tokens around the definition of a tool."""

_LEAST, _MOST = 0.8, 4.0
"""The correction stays within: what a server counts of a request that it has cut is no measure."""

Message = Mapping[str, Any]


def tokens_of_text(text: str) -> int:
    """About how many tokens a text is: four bytes are one."""
    return (len(text.encode("utf-8", "surrogatepass")) + 3) // 4


def tokens_of_message(message: Message) -> int:
    """About how many tokens a message is, without what the model thought before it."""
    content = message.get("content")
    parts = content if isinstance(content, list | tuple) else [{"type": "text", "text": content or ""}]
    calls = calls_in(message)
    called = len(msgspec.json.encode(calls, enc_hook=str)) // 4 if calls else 0
    return _AROUND + sum(map(_tokens_of_part, parts)) + called


def tokens_of_messages(messages: Iterable[Message]) -> int:
    """About how many tokens some messages are."""
    return sum(map(tokens_of_message, messages))


def tokens_of_tools(tools: Sequence[ToolSpec]) -> int:
    """About how many tokens the definitions of tools are."""
    encoded = (msgspec.json.encode((tool.name, tool.description, tool.parameters)) for tool in tools)
    return sum(_AROUND_TOOL + len(each) // 4 for each in encoded)


def correction_of(usage: Mapping[str, Any] | None, estimated: int) -> float | None:
    """By how much estimates are to be multiplied, after a request that a provider counted; None if it did not."""
    sent, _ = count_directions(usage)
    return min(max(sent / estimated, _LEAST), _MOST) if sent and estimated else None


def _tokens_of_part(part: Any) -> int:
    if not isinstance(part, Mapping):
        return tokens_of_text(str(part))
    if part.get("type") == "text":
        return tokens_of_text(str(part.get("text") or ""))
    if part.get("type") == "image_url":
        return PICTURE
    return max(PICTURE, size_of(part) // 20)
