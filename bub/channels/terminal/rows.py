"""Texts as rows of so many cells."""

from __future__ import annotations

from bub.channels.terminal.escaping import escape_controls

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


def shorten(text: str, width: int) -> str:
    """Return a text cut to so many letters."""
    return text if len(text) <= width else f"{text[: max(width - 1, 1)]}…"


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
