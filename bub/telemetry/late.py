"""What is imported if somebody wants telemetry, and, in the thread that sends, the packages of OpenTelemetry."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Sending": "bub.telemetry.sending",
    "open_telemetry": "bub.telemetry.running",
    "read_slow": "bub.telemetry.settings",
    "time_slow": "bub.telemetry.slow",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
