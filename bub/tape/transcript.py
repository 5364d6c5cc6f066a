"""A tape as people read it: who said what and when, and what was done in between."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

from bub.base.layout import EMPTY, Line, Span, Tone, cells, line, wrap_text
from bub.tape.entry import REPEATED, TapeEntry, words_of
from bub.tape.tape import BOOTSTRAP

_NAMED_BY: Mapping[str, str] = MappingProxyType({"message": "role", "error": "type", "anchor": "name", "event": "name"})
_INDENT = 2
_MOST_LINES = 12
"""How many lines are shown of what the agent was given to read; people's words and its own are shown whole."""


def transcript(entries: Iterable[TapeEntry], width: int | None) -> Iterator[Line]:
    """The lines of some entries, at most `width` cells long; None leaves lines as long as they are."""
    told = (entry for entry in entries if not _is_repeated(entry))
    for index, entry in enumerate(told):
        if index:
            yield EMPTY
        tone: Tone = "bad" if entry.kind == "error" else "strong"
        yield Span(f"#{entry.id}  {moment(entry.date)}  ", "faint"), Span(_who(entry), tone)
        for text, most in _texts_of(entry):
            yield from _block(text, most, width)


def moment(date: str) -> str:
    """Return a date of an entry in the reader's own time, to the second; a text that is not a date as it is."""
    try:
        return datetime.fromisoformat(date).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError):
        return date


def text_in(entry: TapeEntry) -> str:
    """Return what an entry says, called or answered, as a transcript shows it, and all of it."""
    return "\n".join(text for text, _ in _texts_of(entry) if text)


def excerpt(entry: TapeEntry, text: str, width: int) -> Line:
    """One line of what an entry says around a text that was found in it."""
    words = " ".join(words_of(entry.payload).split())
    found = re.search(re.escape(" ".join(text.split())), words, re.IGNORECASE)
    if found is None:  # it was found in another case than this comparison knows
        return line(cut(words, width))
    start = max(0, found.start() - max(0, width - len(found[0])) // 2)
    before = f"…{words[start + 1 : found.start()]}" if start else words[: found.start()]
    after = words[found.end() :]
    return Span(before), Span(found[0], "strong"), Span(cut(after, max(1, width - cells(before) - cells(found[0]))))


def cut(text: str, width: int) -> str:
    """Return a text that takes at most `width` cells, an ellipsis in place of what is too much."""
    if cells(text) <= width:
        return text
    while text and cells(text) >= width:
        text = text[:-1]
    return f"{text}…"


def is_bookkeeping(entry: TapeEntry) -> bool:
    """Whether an entry is about the tape or the turn, and not what was said, called, answered or failed."""
    match entry.kind:
        case "system":
            return True
        case "event":
            return not _is_command(entry)
        case "anchor":
            return entry.anchor_name == BOOTSTRAP
        case _:
            return False


def _is_command(entry: TapeEntry) -> bool:
    return entry.kind == "event" and entry.payload.get("name") == "command"


def _is_repeated(entry: TapeEntry) -> bool:
    """Whether an entry says again what the anchor before it says, or what was said before that."""
    return bool(entry.meta.get(REPEATED)) or (entry.kind == "event" and entry.payload.get("name") == "handoff")


def _who(entry: TapeEntry) -> str:
    named = entry.payload.get(_NAMED_BY.get(entry.kind, ""))
    if entry.kind == "message":
        return str(named or "message")
    if _is_command(entry):
        return "command"
    return f"{entry.kind.replace('_', ' ')} {named}" if named else entry.kind.replace("_", " ")


def _texts_of(entry: TapeEntry) -> Iterator[tuple[str, int | None]]:
    """Return the texts of an entry, each with how many of its lines are shown."""
    payload = entry.payload
    match entry.kind:
        case "message":
            yield _content(payload.get("content")), _MOST_LINES if payload.get("role") == "tool" else None
            yield from ((_call(call), None) for call in _mappings(payload.get("tool_calls")))
        case "tool_call":
            yield _content(payload.get("content")), None
            yield from ((_call(call), None) for call in _mappings(payload.get("calls")))
        case "tool_result":
            for result in _items_of(payload.get("results")):
                yield _content(result.get("content") if isinstance(result, Mapping) else result), _MOST_LINES
        case "system":
            yield _content(payload.get("content")), _MOST_LINES
        case "error":
            yield _content(payload.get("message")), _MOST_LINES
        case "event" if _is_command(entry) and isinstance(payload.get("data"), Mapping):
            yield f"→ {_content(payload['data'].get('raw'))}", None
            yield _content(payload["data"].get("output")), _MOST_LINES
        case "anchor" | "event":
            yield _content(payload.get("state") or payload.get("data") or None), _MOST_LINES
        case _:
            yield _content(payload), _MOST_LINES


def _content(content: Any) -> str:
    """Return a content as text; for a part that is not text, its kind."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if isinstance(content, list) and all(isinstance(part, Mapping) and "type" in part for part in content):
        return "\n".join(str(part["text"]) if "text" in part else f"[{part['type']}]" for part in content)
    return json.dumps(content, ensure_ascii=False, default=str)


def _call(call: Mapping[str, Any]) -> str:
    function = call.get("function")
    called = function if isinstance(function, Mapping) else call
    return f"→ {called.get('name') or '?'} {_content(called.get('arguments')) or '{}'}"


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    return (each for each in _items_of(value) if isinstance(each, Mapping))


def _items_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _block(text: str, most: int | None, width: int | None) -> Iterator[Line]:
    lines = [part for one in text.rstrip().expandtabs(4).splitlines() for part in _fold(one, width)]
    yield from (line(" " * _INDENT + part) for part in lines[:most])
    if most is not None and len(lines) > most:
        yield line(f"{' ' * _INDENT}… {len(lines) - most} more lines", "faint")


def _fold(text: str, width: int | None) -> list[str]:
    """Break a line into several if it is too long."""
    room = max((width or 0) - _INDENT, 1)
    return [text] if width is None or cells(text) <= room else wrap_text(text, room)
