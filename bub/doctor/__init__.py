"""`bub doctor`: checks everything that a turn needs, one by one.

Each check reads and reports. What mends a problem is a command: `bub onboard`, `bub trust`, `bub validate --fix`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from bub.doctor.checks import Look
from bub.doctor.confinement import look_at_commands
from bub.doctor.locked import look_at_lock
from bub.doctor.machine import look_at_folders, look_at_python, look_at_terminal
from bub.doctor.model import look_at_clock, look_at_local_model, look_at_model
from bub.doctor.pipeline import (
    look_at_agent,
    look_at_channels,
    look_at_file,
    look_at_plugins,
    look_at_tapes,
    look_at_trust,
)
from bub.doctor.servers import look_at_servers
from bub.doctor.store import look_at_store
from bub.doctor.telemetry import look_at_telemetry

LOOKS: Mapping[str, Look] = MappingProxyType(
    {
        "python": look_at_python,
        "file": look_at_file,
        "trust": look_at_trust,
        "agent": look_at_agent,
        "lock": look_at_lock,
        "plugins": look_at_plugins,
        "servers": look_at_servers,
        "model": look_at_model,
        "local model": look_at_local_model,
        "commands": look_at_commands,
        "channels": look_at_channels,
        "store": look_at_store,
        "tapes": look_at_tapes,
        "telemetry": look_at_telemetry,
        "folders": look_at_folders,
        "clock": look_at_clock,
        "terminal": look_at_terminal,
    }
)
"""Every check in its order: some use what the checks above them found out."""
