"""The error that plugins of the reference raise: a kind, a message, details."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from bub.errors import BubError as _BubError


class ErrorKind(StrEnum):
    """What sort of failure it is."""

    INVALID_INPUT = "invalid_input"
    CONFIG = "config"
    PROVIDER = "provider"
    TOOL = "tool"
    TEMPORARY = "temporary"
    NOT_FOUND = "not_found"
    UNKNOWN = "unknown"


class BubError(_BubError):
    """A failure that Bub reports in one line, as any other of Bub's own."""

    def __init__(self, kind: ErrorKind, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.kind = ErrorKind(kind)
        self.message = message
        self.details = dict(details) if details is not None else None

    def __str__(self) -> str:
        return f"[{self.kind.value}] {self.message}"

    def as_dict(self) -> dict[str, Any]:
        """The error as a tape or a tool's result has it."""
        told: dict[str, Any] = {"kind": self.kind.value, "message": self.message}
        return {**told, "details": self.details} if self.details else told
