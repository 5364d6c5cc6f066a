"""What the agent of a turn has done so far, as the state of the turn tells it."""

from __future__ import annotations

from typing import Any

from bub.agent.calls.caller import ToolOutcome
from bub.hooks.facts import RESERVED_STATE

TALLY = f"{RESERVED_STATE}turn"
"""The key in the state of a turn with what its agent has done so far: `steps`, `tokens`, and what it called."""


def new_tally() -> dict[str, Any]:
    """Return the counts as they are before anything is done."""
    return {**dict.fromkeys(("steps", "tokens", "tool_calls", "successful_tool_calls"), 0), "tools": []}


def count_call(tally: dict[str, Any], outcome: ToolOutcome) -> None:
    """Count a call that has an outcome."""
    tally["tool_calls"] += 1
    tally["successful_tool_calls"] += not outcome.is_error
    if outcome.call.name not in tally["tools"]:
        tally["tools"].append(outcome.call.name)
