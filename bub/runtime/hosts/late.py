"""What a runtime imports when it first needs it: most profiles have no plugin that runs on asyncio."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {"IslandHost": "bub.runtime.hosts.islands", "SharedHost": "bub.runtime.hosts.islands"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
