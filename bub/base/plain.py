"""What plugins put into a turn, in the few types that JSON knows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from bub.envelope import normalize_envelope

_DEEPEST = 100
_LEFT_OUT = "…"


def plain(value: Any) -> Any:
    """The value in types of JSON: messages become objects, numbers that JSON lacks (NaN) null, all else its text.

    What contains itself, or is nested deeper than a hundred levels, ends in `…`.
    """
    return _plain(value, ())


def _plain(value: Any, above: tuple[int, ...]) -> Any:
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    is_object = hasattr(value, "__dict__")
    if not isinstance(value, Mapping | list | tuple) and not is_object:
        return str(value)
    if id(value) in above or len(above) == _DEEPEST:
        return _LEFT_OUT
    above = (*above, id(value))
    if isinstance(value, list | tuple):
        return [_plain(item, above) for item in value]
    return {_key(name): _plain(item, above) for name, item in normalize_envelope(value).items()}


def _key(name: Any) -> Any:
    return name if name is None or isinstance(name, str | int) else str(name)
