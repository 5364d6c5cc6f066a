"""Text with fields of a JSON body in it, such as `{action}: {issue.title}`."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from bub_plugins.http.refusal import Refusal

BODY = "body"
"""The field that is the whole body."""

_FIELD = re.compile(r"\{([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)\}")


def fields_of(template: str) -> list[str]:
    """Return the fields that a template names."""
    return _FIELD.findall(template)


def fill(template: str, body: bytes) -> str:
    """Return a template with its fields filled in. Raises `Refusal` (400) if the body has no such field.

    `{a.b}` is the value at `b` of the object at `a`, `{a.0}` the first of a list, and `{body}` the body as it came.
    """
    names = fields_of(template)
    whole = _decode(body) if any(name != BODY for name in names) else None
    return _FIELD.sub(lambda match: _text(body, whole, match[1]), template)


def _decode(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, ValueError):
        raise Refusal(400, "the body is not JSON") from None


def _text(body: bytes, whole: Any, name: str) -> str:
    if name == BODY:
        try:
            return body.decode()
        except UnicodeDecodeError:
            raise Refusal(400, "the body is not text in UTF-8") from None
    found = whole
    for key in name.split("."):
        if isinstance(found, list) and key.isdigit() and int(key) < len(found):
            found = found[int(key)]
        else:
            found = found.get(key) if isinstance(found, dict) else None
    if found is None:
        raise Refusal(400, f"the body has no `{name}`")
    return found if isinstance(found, str) else msgspec.json.encode(found).decode()
