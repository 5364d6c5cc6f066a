"""A finding about a value of a file: its code, and its path as people write it."""

from __future__ import annotations

from bub.base.diagnostics import Diagnostic, Place, Related, Severity
from bub.base.json_schema import join_steps
from bub.pipeline.check.words import Path

UNKNOWN_KEY = "B100"
WRONG_TYPE = "B101"
UNKNOWN_VALUE = "B102"
MISSING = "B103"
BAD_DURATION = "B104"
BAD_VALUE = "B105"
BROKEN_SCHEMA = "B106"
LITERAL_SECRET = "B040"


def make_finding(
    code: str,
    message: str,
    place: Place,
    path: Path,
    *,
    help: str | None = None,  # noqa: A002 (the reader's word)
    fix: str | None = None,
    likely: str | None = None,
    severity: Severity = "error",
    related: tuple[Related, ...] = (),
) -> Diagnostic:
    profile = str(path[1]) if len(path) > 1 and path[0] == "profiles" else None
    likely = likely if fix is None else None
    dotted = join_steps(path)
    return Diagnostic(code, severity, message, place.file, place.range, dotted, profile, help, fix, related, likely)
