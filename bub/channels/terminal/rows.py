"""Text as rows of so many cells."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bub.channels.terminal.escaping import escape_controls

_NAME = re.compile(r"\S+ {2,}(?=\S)")
_BELOW = 4
"""How far, in cells, words are indented that are below the name that they are about."""
_FURTHER = 6
"""How far, in cells, the further rows of a line are indented that is shown letter by letter."""


def last_rows(text: str, width: int, most: int) -> list[str]:
    """Return the last rows that a text takes in `width` cells, at most so many."""
    text = escape_controls(text).expandtabs(4).strip("\n")
    if not text:
        return []
    rows: list[str] = []
    for line in reversed(text[-most * width :].split("\n")[-most:]):
        rows = [*_wrap(line, max(width - 1, 2)), *rows]
        if len(rows) >= most:
            break
    return rows[-most:]


def _wrap(line: str, width: int) -> list[str]:
    """Return a line in rows, broken between words if it has any."""
    from prompt_toolkit.utils import get_cwidth

    rows, row, room = [], "", width
    for letter in line:
        taken = get_cwidth(letter)
        if taken > room:
            head, space, tail = row.rpartition(" ")
            if not space or letter == " ":
                head, tail = row, ""
            rows.append(head)
            row = tail
            room = width - get_cwidth(row)
            if letter == " " and not row:
                continue
        row += letter
        room -= taken
    return [*rows, row]


def hang(text: str, width: int) -> str:
    """Return a list of names, each with words about it at the same place, so that the words stay below each other.

    In a narrow window they are below the name. Any other text is returned as it is.
    """
    found = [(line, _NAME.match(line)) for line in text.split("\n")]
    places = {match.end() if match is not None else 0 for _, match in found}
    place = max(places)
    if len(places) != 1 or place == 0:
        return text
    is_narrow = place > width // 2
    indent = min(_BELOW, width - 2) if is_narrow else place
    rows: list[str] = []
    for line, _ in found:
        words = _wrap(line[place:], max(width - indent, 2))
        first = [line[:place].rstrip()] if is_narrow else [line[:place] + words.pop(0)]
        rows += [*first, *(" " * indent + row for row in words)]
    return "\n".join(rows)


def greet(parts: Sequence[str], width: int) -> list[str]:
    """Return a greeting in as few rows as its parts take, a dot between them; what is longer than a row is broken."""
    rows: list[str] = []
    for part in parts:
        joined = f"{rows[-1]} · {part}" if rows else part
        if rows and len(_wrap(joined, width)) > 1:
            rows += _wrap(part, width)
        else:
            rows = [*rows[:-1], *_wrap(joined, width)]
    return rows


def shorten(text: str, width: int) -> str:
    """Return a text cut to so many cells."""
    from prompt_toolkit.utils import get_cwidth

    if get_cwidth(text) <= width:
        return text
    room = max(width - 1, 1)
    kept = text[:room]
    while get_cwidth(kept) > room:
        kept = kept[:-1]
    return f"{kept}…"


def fold(line: str, width: int) -> list[str]:
    """Return a line in rows, letter by letter: no blank is left out, and what goes on below is indented."""
    from prompt_toolkit.utils import get_cwidth

    rows, room = [""], width
    for letter in line:
        taken = get_cwidth(letter)
        if taken > room:
            rows.append(" " * _FURTHER)
            room = width - _FURTHER
        rows[-1] += letter
        room -= taken
    return rows
