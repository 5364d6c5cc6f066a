"""What a gateway imports if its settings say so: the page, with its server."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {"Page": "bub.gateway.page"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
