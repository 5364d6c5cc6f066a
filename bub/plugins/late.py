"""What loading imports when it first needs it: few profiles list a plugin with `runtime: asyncio`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {"begin_adoption": "bub_reference.bridge.reading"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
