"""What the agent imports when it first needs it: a comma command asks no model, and only a set-up asks for one."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "ask_for_model": "bub.agent.onboarding",
    "Asking": "bub.agent.models.asking",
    "Connection": "bub.agent.mcp.connection",
    "Surroundings": "bub.agent.mcp.connection",
    "Seen": "bub.agent.mcp.looking",
    "look_at_servers": "bub.agent.mcp.looking",
    "open_servers": "bub.agent.mcp.servers",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
