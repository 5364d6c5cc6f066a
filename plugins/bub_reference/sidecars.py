"""A tape beside a session's tape, which a plugin keeps for itself."""

from __future__ import annotations

from typing import Protocol

SIDECAR_TAPE_MARKER = "__sidecar__"


class TapeSidecar(Protocol):
    """What a plugin gives for one: its `name`."""

    @property
    def name(self) -> str: ...


def sidecar_tape_name(owner: str, sidecar: str) -> str:
    """Name the tape that lies beside that of `owner`."""
    return SIDECAR_TAPE_MARKER.join((owner, sidecar))
