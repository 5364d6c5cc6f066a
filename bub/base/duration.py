"""Durations as people write them: `500ms`, `30s`, `2m`, `1h`."""

from __future__ import annotations

import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PATTERN = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")


def parse_duration(text: str) -> float | None:
    """The seconds a duration such as `500ms` stands for, or None when it is not a duration above zero."""
    match = _PATTERN.fullmatch(text)
    if match is None:
        return None
    return float(match[1]) * _UNITS[match[2]] or None


def format_duration(seconds: float) -> str:
    """A measured time for people, with three figures at most: `0.43 ms`, `12.1 ms`, `3.20 s`."""
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:.0f} s"
