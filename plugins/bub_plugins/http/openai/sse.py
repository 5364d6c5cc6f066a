"""Server-sent events, as OpenAI's clients read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

DONE = "data: [DONE]\n\n"
ALIVE = ": alive\n\n"
"""A comment, which no client shows: something between them may close a connection on which nothing comes."""

_LINE_ENDS = (("\x85", "\\u0085"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029"))
"""What some readers of events take for the end of a line, beside those that JSON escapes anyway."""


def event(data: Mapping[str, Any], name: str = "") -> str:
    """Return one event."""
    text = msgspec.json.encode(data).decode()
    for end, escaped in _LINE_ENDS:
        text = text.replace(end, escaped)
    said = f"data: {text}\n\n"
    return f"event: {name}\n{said}" if name else said
