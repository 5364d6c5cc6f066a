"""Whether anybody wants telemetry: all that is asked of this folder if nobody does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
SIGNAL_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
DISABLED = "OTEL_SDK_DISABLED"

SECTION = "telemetry"
"""The section of the settings."""


def is_wanted(settings: Mapping[str, Any], environ: Mapping[str, str]) -> bool:
    """Whether the settings or the environment name a collector, and the environment does not disable all of it.

    The variables are those of OpenTelemetry: an empty one counts as none, and only `true` disables.
    """
    if environ.get(DISABLED, "").strip().lower() == "true":
        return False
    return is_named_in_settings(settings) or any(environ.get(name) for name in (ENDPOINT, *SIGNAL_ENDPOINTS))


def is_named_in_settings(settings: Mapping[str, Any]) -> bool:
    """Whether the settings themselves name a collector."""
    section = settings.get(SECTION)
    return isinstance(section, Mapping) and bool(section.get("endpoint"))
