"""Values as YAML in one line, such that Bub and other tools read them back as the same values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from bub.pipeline.yaml_reader import TRUTH_ELSEWHERE, read_scalar

_PLAIN = re.compile(
    r"""(?x)
    (?:[^\W\d]|/) [\w./+@-]* (?::[\w./+@-]+)* (?:\ [\w./+@][\w./+@-]*)*
    | [0-9]+(?:\.[0-9]+)?(?:ms|s|m|h)"""
)
"""Text that may stand without quotes, and durations; much else may, too, but not in every tool's eyes."""

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def written(value: Any, like: str = "") -> str:
    """A value as YAML in one line: text, numbers and such, lists `[a, b]`, mappings `{a: b}`.

    Text has quotes only where it needs them, or where `like`, the text that the value is to replace, has some: then
    it keeps them where it can.
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{written(str(name))}: {written(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(written(item) for item in value) + "]"
    if isinstance(value, str):
        return _text(value, like[:1])
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else f"{'-' if value < 0 else ''}.inf"
    return json.dumps(value)


def _text(text: str, quote: str) -> str:
    if quote == "'" and text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    is_plain = _PLAIN.fullmatch(text) and isinstance(read_scalar(text), str) and text not in TRUTH_ELSEWHERE
    if is_plain and quote != '"':
        return text
    return '"' + "".join(_ESCAPES.get(letter) or _visible(letter) for letter in text) + '"'


def _visible(letter: str) -> str:
    """A character as it stands in double quotes: as an escape where it is not to be seen, or ends a line to YAML."""
    if letter.isprintable():
        return letter
    number = ord(letter)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
