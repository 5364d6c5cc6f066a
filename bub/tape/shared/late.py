"""What is imported when tapes lie in a Redis, and not before: its client takes half a second."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {"open_redis_tapes": "bub.tape.shared.store"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
