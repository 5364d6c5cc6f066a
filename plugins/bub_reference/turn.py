"""What a turn carries, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from bub_reference.envelope import Envelope

TurnState: TypeAlias = dict[str, Any]
"""What plugins know of a turn, by name."""


@dataclass(frozen=True)
class TurnResult:
    """What came of one message."""

    session_id: str
    prompt: str | list[dict[str, Any]]
    model_output: str
    outbounds: list[Envelope] = field(default_factory=list)
    state: TurnState = field(default_factory=dict)
