"""Server-sent events, as OpenAI's clients read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

DONE = "data: [DONE]\n\n"
ALIVE = ": alive\n\n"
"""A comment, which no client shows: something between them may close a connection on which nothing comes."""


def event(data: Mapping[str, Any], name: str = "") -> str:
    """Return one event."""
    said = f"data: {msgspec.json.encode(data).decode()}\n\n"
    return f"event: {name}\n{said}" if name else said
