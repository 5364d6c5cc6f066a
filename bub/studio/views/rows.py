"""Entries of a tape as rows of the page: secrets covered, long text cut, pictures and files by their names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bub.base.plain import plain
from bub.secrets.redactor import Redactor
from bub.tape.entry import TapeEntry
from bub.tape.transcript import text_in

MOST_TEXT = 8_000
"""How many characters are shown of what an entry says."""

_MOST_VALUE, _MOST_ITEMS, _DEEPEST = 1_000, 40, 6
"""How much is shown of a value that is said about an entry: characters of a text, items, levels."""
_COVERED_WITH_IT = 10_000
"""How far behind its end a text is looked through, so that no secret is cut in two before it is covered."""
_MEDIA = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,")


def row_of(entry: TapeEntry, mask: Redactor, *, most: int = MOST_TEXT) -> dict[str, Any]:
    """Return an entry as a row: `{id, at, kind, role, text, name, data}`; `at` is in Unix seconds, None if unknown.

    `name` is that of an anchor or event, the type of an error, or the tools that are called. What is cut ends with how
    many characters are missing.
    """
    payload = entry.payload
    return {
        "id": entry.id,
        "at": moment_of(entry),
        "kind": entry.kind,
        "role": str(payload.get("role") or "") if entry.kind == "message" else "",
        "text": cover(text_in(entry), mask, most),
        "name": cover(_name_of(entry), mask, _MOST_VALUE),
        "data": shorten(_data_of(entry), mask),
    }


def moment_of(entry: TapeEntry) -> float | None:
    """Return when an entry was written in Unix seconds; None for a date that is none."""
    try:
        return datetime.fromisoformat(entry.date).timestamp()
    except (ValueError, OverflowError):
        return None


def cover(text: str, mask: Redactor, most: int) -> str:
    """Return a text with its secrets covered, cut behind so many characters with a mark that says so.

    Of a picture or file that is packed in it, what it is.
    """
    packed = _MEDIA.match(text)
    if packed is not None:
        return f"[{packed[1]}]"
    covered = mask.text(text[: most + _COVERED_WITH_IT])
    left_out = max(len(text) - most - _COVERED_WITH_IT, 0) + max(len(covered) - most, 0)
    return f"{covered[:most]}… ({left_out:,} more characters)" if left_out else covered


def shorten(value: Any, mask: Redactor) -> Any:
    """Return a value in types of JSON, secrets covered, and small enough for a page."""
    return _shorten(plain(value), mask, _DEEPEST)


def _shorten(value: Any, mask: Redactor, deepest: int) -> Any:
    if isinstance(value, str):
        return cover(value, mask, _MOST_VALUE)
    if isinstance(value, list | dict) and not deepest:
        return "…"
    if isinstance(value, list):
        kept = [_shorten(item, mask, deepest - 1) for item in value[:_MOST_ITEMS]]
        return [*kept, f"… ({len(value) - _MOST_ITEMS} more)"] if len(value) > _MOST_ITEMS else kept
    if isinstance(value, dict):
        names = list(value)[:_MOST_ITEMS]
        found = {cover(str(name), mask, _MOST_VALUE): _shorten(value[name], mask, deepest - 1) for name in names}
        return {**found, "…": f"{len(value) - _MOST_ITEMS} more"} if len(value) > _MOST_ITEMS else found
    return mask.value(value)


def _name_of(entry: TapeEntry) -> str:
    payload = entry.payload
    match entry.kind:
        case "anchor" | "event":
            return str(payload.get("name") or "")
        case "error":
            return str(payload.get("type") or "")
        case "tool_call":
            return ", ".join(_tool_of(call) for call in _mappings(payload.get("calls")))
        case _:
            return ""


def _tool_of(call: Mapping[str, Any]) -> str:
    function = call.get("function")
    return str((function if isinstance(function, Mapping) else call).get("name") or "?")


def _data_of(entry: TapeEntry) -> dict[str, Any]:
    """Return what there is beside the text: notes, calls with their arguments, how results ended."""
    payload, data = entry.payload, dict(entry.meta)
    match entry.kind:
        case "tool_call":
            data["calls"] = payload.get("calls")
        case "tool_result":
            results = _mappings(payload.get("results"))
            data["results"] = [{name: one[name] for name in one if name != "content"} for one in results]
        case "anchor":
            data["state"] = payload.get("state")
        case "event":
            data["data"] = payload.get("data")
        case "message" if payload.get("tool_calls"):
            data["calls"] = payload["tool_calls"]
    return data


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
