"""What it means to ask a person: a question with the facts to judge by, and a yes or a no."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Question:
    """Whether a tool may be called: its name, and the very arguments that it would be called with."""

    session_id: str
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


Ask: TypeAlias = Callable[[Question], Awaitable[bool]]
"""Puts a question to a person; True is a yes. Whoever cannot ask answers no."""
