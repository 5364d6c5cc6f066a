"""What a broken duration probably meant."""

from __future__ import annotations

import re
from typing import Any

from bub.base.diagnostics import Diagnostic
from bub.pipeline.check.schema_finding import BAD_DURATION, make_finding
from bub.pipeline.check.words import Path, may_be_told, name_value
from bub.pipeline.source.document import Node

_UNITS = {
    "ms": ("ms", "msec", "millisecond", "milliseconds"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
}


def explain_bad_duration(message: str, node: Node, path: Path, *, is_told: bool = True) -> Diagnostic:
    if is_told and may_be_told(path) and isinstance(node.value, str | int | float):
        message += f", not {name_value(node.value)}"
    meant, sure = _guess_duration(node.value)
    hint = f"did you mean `{meant}`?" if meant else _how_to_write(str(node.value))
    return make_finding(BAD_DURATION, message, node.place, path, help=hint, fix=meant if sure else None, likely=meant)


def _how_to_write(duration: str) -> str | None:
    """What to write in place of what may have meant several durations, or none."""
    if clock := re.fullmatch(r"([0-9]{1,3}):([0-5][0-9])", duration, re.ASCII):
        count = int(clock[1]) * 60 + int(clock[2])
        return f"write `{count}s` for minutes and seconds, `{count}m` for hours and minutes"
    if re.fullmatch(r"0+(\.0+)?\s*[a-z]*", duration, re.ASCII):
        return "it has to be more than zero: leave it out, or write `1ms`"
    return None


def _guess_duration(value: Any) -> tuple[str | None, bool]:
    """The duration that was probably meant, and whether it can be nothing else: a bare number may be of any unit."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)\s*", str(value), re.ASCII | re.IGNORECASE)
    if match is None:
        return _convert_to_one_unit(str(value)), True
    if not float(match[1]):
        return None, False
    for unit, words in _UNITS.items():
        if (match[2].lower() or "s") in words:
            return f"{match[1]}{unit}", match[2] not in ("", "M")  # `M` may as well be months
    return None, False


def _convert_to_one_unit(text: str) -> str | None:
    """A duration of several parts, such as `1h30m`, in the smallest unit that it has; None when it is no such thing."""
    parts = re.fullmatch("(?:([0-9]{1,6})h)? ?(?:([0-9]{1,6})m)? ?(?:([0-9]{1,6})s)?", text)
    hours, minutes, seconds = (int(part or 0) for part in parts.groups()) if parts else (0, 0, 0)
    minutes += 60 * hours
    if seconds:
        return f"{60 * minutes + seconds}s"
    return f"{minutes}m" if minutes else None
