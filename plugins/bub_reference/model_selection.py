"""The models that a person may choose from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ModelChoice:
    """One of them."""

    id: str
    name: str | None = None
    description: str | None = None
    meta: dict[str, Any] | None = None


@dataclass(frozen=True)
class ModelOptions:
    """All of them, and which one the session has now."""

    models: list[ModelChoice] = field(default_factory=list)
    current_model: str | None = None
