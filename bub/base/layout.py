"""Text laid out for a terminal: spans with a tone, columns that line up, sentences that wrap."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

Tone = Literal["", "strong", "faint", "warn", "good", "bad"]
"""How a piece of text looks where colours can be shown: `warn` is for what keeps a turn from going on."""


class Span(NamedTuple):
    """A piece of a line in one tone."""

    text: str
    tone: Tone = ""


Line: TypeAlias = tuple[Span, ...]
"""One line without its end."""

EMPTY: Line = ()


def line(text: str, tone: Tone = "") -> Line:
    """A line of one piece."""
    return (Span(text, tone),)


def cells(text: str) -> int:
    """How many cells of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(one) else 1 + (unicodedata.east_asian_width(one) in "WF") for one in text)


def pad_text(text: str, width: int) -> str:
    """The text with blanks behind it up to so many cells; a longer one stays as it is."""
    return text + " " * (width - cells(text))


def wrap_text(text: str, width: int) -> list[str]:
    """The words of a text in lines of at most so many cells; a word that is longer has a line of its own."""
    lines: list[str] = []
    for word in text.split():
        if lines and cells(lines[-1]) + 1 + cells(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def indent_text(text: str, width: int, indent: int, tone: Tone = "") -> list[Line]:
    """A sentence in lines of at most `width` cells, so many blanks in front of each."""
    return [line(" " * indent + part, tone) for part in wrap_text(text, max(width - indent, 1))]


def label_text(label: str, text: str, width: int, indent: int) -> list[Line]:
    """A sentence behind a label, its further lines set in below its first."""
    first, *more = wrap_text(text, max(width - indent, 1)) or [""]
    head = pad_text(label, indent - 1) + " "
    return [(Span(head, "faint"), Span(first)), *(line(" " * indent + part) for part in more)]


def widest(texts: Iterable[str]) -> int:
    """Return how many cells the widest of some strings takes."""
    return max((cells(text) for text in texts), default=0)


def columns(rows: Sequence[Sequence[Span]], indent: int = 0) -> list[Line]:
    """Rows of equal length, each column as wide as its widest entry and two blanks; nothing is put behind the last."""
    widths = [widest(span.text for span in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        last = max((index for index, span in enumerate(row) if span.text), default=-1)
        spans = [
            Span(pad_text(span.text, widths[index] + 2) if index < last else span.text, span.tone)
            for index, span in enumerate(row[: last + 1])
        ]
        lines.append((Span(" " * indent), *spans) if indent else tuple(spans))
    return lines
