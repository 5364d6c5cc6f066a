"""Reading a body of JSON from strangers: what each value has to be, said with the place if it is not."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from bub_plugins.http.openai.errors import refuse

MOST_DEPTH = 64
"""How deeply lists and mappings of a body may be nested."""

_DATA = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w.=+-]+)*;base64,")
_T = TypeVar("_T")


def read_body(body: bytes) -> dict[str, Any]:
    """Read a body that has to be an object of JSON. Raises `ApiError`."""
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        refuse("The body of the request is not JSON, or is nested too deeply.")
    if not isinstance(said, dict):
        refuse("The body of the request has to be a JSON object.")
    if _is_deep(said):
        refuse(f"The body of the request is nested more than {MOST_DEPTH} levels deep.")
    return said


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MOST_DEPTH):
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return False
    return True


def _inside(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [one for one in inner if isinstance(one, dict | list)]


def get(said: Mapping[str, Any], key: str, kind: type[_T], param: str = "") -> _T | None:
    """Return a value that has to be of a kind if it is there; None if it is not. Raises `ApiError`."""
    value = said.get(key)
    if value is None:
        return None
    is_number = kind in (int, float) and isinstance(value, bool)
    if kind is float and isinstance(value, int) and not is_number:
        return float(value)  # type: ignore[return-value]
    if not isinstance(value, kind) or is_number:
        place = _place(param, key)
        refuse(f"`{place}` has to be {_NAMES.get(kind, kind.__name__)}.", place)
    return value


def need(said: Mapping[str, Any], key: str, kind: type[_T], param: str = "") -> _T:
    """Return a value that has to be there. Raises `ApiError`."""
    value = get(said, key, kind, param)
    if value is None:
        place = _place(param, key)
        refuse(f"`{place}` is missing.", place)
    return value


def number(said: Mapping[str, Any], key: str, kind: type[_T], least: float, most: float) -> _T | None:
    """Return a number within bounds, if it is there. Raises `ApiError`."""
    value = get(said, key, kind)
    if value is not None and not least <= value <= most:  # type: ignore[operator]
        refuse(f"`{key}` has to be between {least:g} and {most:g}.", key)
    return value


def objects(value: Any, param: str) -> list[dict[str, Any]]:
    """Return a list whose elements have to be objects. Raises `ApiError`."""
    if not isinstance(value, list):
        refuse(f"`{param}` has to be a list.", param)
    for index, one in enumerate(value):
        if not isinstance(one, dict):
            refuse(f"`{param}[{index}]` has to be an object.", f"{param}[{index}]")
    return value


def data_url(url: str, kind: str, param: str) -> str:
    """Return the media type of an address that holds the thing itself. Raises `ApiError` for any other.

    An address elsewhere is never fetched: whoever names it could have this machine ask its neighbours.
    """
    found = _DATA.match(url)
    if found is None:
        refuse(f"`{param}` has to hold the {kind} itself: send a `data:` URL in base64. No address is fetched.", param)
    try:
        base64.b64decode(url[found.end() :], validate=True)
    except (binascii.Error, ValueError):
        refuse(f"`{param}` is not base64.", param)
    return found[1]


def _place(param: str, key: str) -> str:
    return f"{param}.{key}" if param else key


_NAMES: dict[Any, str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}
