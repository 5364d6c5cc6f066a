"""What a turn may use if a profile's `budget:` does not say."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

DEFAULT_LIMITS: Mapping[str, int] = MappingProxyType(
    {
        "steps": 100,
        "tool_calls": 100,
        "calls_per_tool": 25,
        "identical_calls": 5,
        "denials": 3,
        "schedules": 10,
    }
)
"""The limits that always hold (BEHAVIOURS A10, E21); tokens are limited only if the profile says so."""
