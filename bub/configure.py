"""Laying answers over a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge(base: Mapping[str, Any], incoming: Mapping[str, Any]) -> dict[str, Any]:
    """Return a new dict with `incoming` laid over `base`: dicts merge by key, everything else replaces (BEHAVIOURS O9).

    If the two are of different shape, `incoming` wins. Neither is changed, and the result shares nothing with them.
    """
    merged = {key: _copy(value) for key, value in base.items()}
    for key, value in incoming.items():
        below = merged.get(key)
        merged[key] = merge(below, value) if isinstance(below, dict) and isinstance(value, Mapping) else _copy(value)
    return merged


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value
