"""Values as YAML in one line, such that Bub and other tools read them back as the same values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from bub.pipeline.source.scalars import TRUTH_ELSEWHERE, read_scalar

_PLAIN = re.compile(
    r"""(?x)
    (?:[^\W\d]|/) [\w./+@-]* (?::[\w./+@-]+)* (?:\ [\w./+@][\w./+@-]*)*
    | [0-9]+(?:\.[0-9]+)?(?:ms|s|m|h)"""
)
"""Text that may be without quotes, and durations; much else may, too, but not in every tool's eyes."""

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def render_value(value: Any, like: str = "") -> str:
    """Return a value as YAML in one line: text, numbers, booleans, lists `[a, b]`, mappings `{a: b}`.

    Text has quotes only if it needs them, or if `like`, the text that the value is to replace, has some: then it keeps
    them if it can.
    """
    if isinstance(value, Mapping):
        return (
            "{" + ", ".join(f"{render_value(str(name))}: {render_value(inner)}" for name, inner in value.items()) + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(render_value(item) for item in value) + "]"
    if isinstance(value, str):
        return _text(value, like[:1])
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            return ".nan"
        return "-.inf" if value < 0 else ".inf"
    return json.dumps(value)


def _text(text: str, quote: str) -> str:
    if quote == "'" and text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    is_plain = _PLAIN.fullmatch(text) and isinstance(read_scalar(text), str) and text not in TRUTH_ELSEWHERE
    if is_plain and quote != '"':
        return text
    return '"' + "".join(_ESCAPES.get(letter) or _visible(letter) for letter in text) + '"'


def _visible(letter: str) -> str:
    """Return a character for double quotes: as an escape if it is invisible, or ends a line to YAML."""
    if letter.isprintable():
        return letter
    number = ord(letter)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
