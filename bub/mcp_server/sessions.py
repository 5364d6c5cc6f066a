"""The sessions of clients: `mcp:` and a name, so that no client can name the session of another channel."""

from __future__ import annotations

import re
from secrets import token_hex
from typing import Any

from bub.errors import UsageError

CHANNEL = "mcp"
"""The channel of every message that a client sends."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def new_name() -> str:
    """A name that no session has."""
    return token_hex(4)


def read_name(given: str) -> str:
    """The name of a session as a client may write it, with or without `mcp:` in front.

    Raises `UsageError` for what can be none.
    """
    name = given.removeprefix(f"{CHANNEL}:")
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"`{given}` cannot be the name of a session",
            help="use up to 64 letters, digits, dots, hyphens and underscores",
        )
    return name


def message_in(name: str, content: str) -> dict[str, Any]:
    """A message of a client in the session of this name; its chat has that name."""
    return {"channel": CHANNEL, "chat_id": name, "content": content}
