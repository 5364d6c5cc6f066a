"""Tapes at a glance, as people look for them: when each was used, its session and folder, and what was said last."""

from __future__ import annotations

import os
from collections.abc import Sequence

from bub.base.layout import Line, Span, cells, columns, line
from bub.tape.tape import Summary
from bub.tape.transcript import cut, moment

_FEWEST_WORDS = 24
"""With less room than this for the last words, a tape is laid out in several lines."""

_MOST_WORDS = 60
"""How much of the last words a line of any length shows."""


def list_tapes(found: Sequence[Summary], width: int | None) -> list[Line]:
    """The lines of some tapes, at most `width` cells long; None is for a program, whose lines may be of any length."""
    head = [Span(title, "faint") for title in ("used", "entries", "session", "folder")]
    lines = columns([[*row, Span("|")] for row in (head, *map(_facts, found))])
    room = _MOST_WORDS if width is None else width - max(map(_length, lines)) + 1
    if room < _FEWEST_WORDS:
        return [each for summary in found for each in _card(summary, width or 0)]
    words = [Span("last words", "faint"), *(Span(_in_one_line(summary.last_words or "-", room)) for summary in found)]
    return [(*line[:-1], word) for line, word in zip(lines, words, strict=True)]


def _facts(summary: Summary) -> list[Span]:
    used = moment(summary.last_date)[:16] if summary.last_date else "-"
    # A tape that was imported has no session: its name is what it is called by.
    called = Span(summary.session or summary.name, "strong")
    return [Span(used), Span(f"{summary.entries:,}"), called, Span(_folder(summary), "faint")]


def _card(summary: Summary, width: int) -> list[Line]:
    """A tape in several lines, if one is too short."""
    used, entries, called, folder = _facts(summary)
    room = max(width - 2, 1)
    lines: list[Line] = [(called,), (Span(f"  {used.text}  {entries.text} entries"),)]
    if summary.workspace:
        lines.append((Span(f"  {_end_of(folder.text, room)}", "faint"),))
    return [*lines, line(f"  {_in_one_line(summary.last_words, room)}")] if summary.last_words else lines


def _folder(summary: Summary) -> str:
    """The folder of a tape, from the reader's home folder if it is there."""
    if not summary.workspace:
        return "-"
    home = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111 (raises nothing)
    return f"~{summary.workspace[len(home) :]}" if f"{summary.workspace}/".startswith(f"{home}/") else summary.workspace


def _in_one_line(text: str, width: int) -> str:
    return cut(" ".join(text.split()), width)


def _end_of(text: str, width: int) -> str:
    return text if cells(text) <= width else f"…{cut(text[::-1], width)[:-1][::-1]}"


def _length(each: Line) -> int:
    return sum(cells(span.text) for span in each)
