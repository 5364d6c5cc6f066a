"""What a command printed at a terminal, as a picture of that terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from pyte.screens import Char

from bub.base.layout import cells

from .paper import box, sheet, words

CELL, LINE, SIZE = 7.5, 18, 30
"""The width of a letter, the height of a line and of the bar above them, in pixels."""
_MARGIN = 16
_SIGN = re.compile(r"\x1b\[(\d*)m")
_ERASED = re.compile(r"[^\n]*\r\x1b\[K")
"""A line that a terminal erased: how far a long work was, which shows on a slow machine only."""
_UNCOLOURED = ("", "strong")
_COLOURS = {
    "red": "red",
    "green": "green",
    "brown": "yellow",
    "blue": "blue",
    "cyan": "blue",
    "magenta": "blue",
    "brightblack": "faint",
}
"""The colours of a picture for those of pyte."""
_STYLES = {"1": "strong", "2": "faint", "31": "red", "32": "green", "33": "yellow", "34": "blue"}


class Run(NamedTuple):
    """Letters of one look, from a column on."""

    column: int
    text: str
    style: str


def draw_terminal(command: str, printed: str, *, keep: Callable[[str], bool] = lambda _: True) -> str:
    """Draw the window of a terminal with a command and what it printed, in its colours: the lines that `keep` wants."""
    lines = [one for one in read_lines(printed) if keep("  ".join(run.text for run in one))]
    return draw_lines(f"The output of: {command}", [[Run(0, "$", "faint"), Run(2, command, "ink strong")], *lines])


def draw_lines(title: str, lines: Sequence[Sequence[Run]]) -> str:
    """Draw the window of a terminal with what is on it."""
    width = 2 * _MARGIN + CELL * max(run.column + cells(run.text) for line in lines for run in line)
    body = [box("bar", 1, 1, width - 2, SIZE - 2, 8)]
    body += [
        f'<circle class="faint" cx="{_MARGIN + 4 + 16 * number}" cy="{SIZE / 2:g}" r="4.5"/>' for number in range(3)
    ]
    for number, line in enumerate(lines, 1):
        for run in line:
            at = _MARGIN + CELL * run.column
            body.append(words(run.style, at, SIZE + LINE * number + 3, run.text, CELL * cells(run.text)))
    return sheet(title, width, SIZE + LINE * len(lines) + _MARGIN, body)


def read_screen(rows: Iterable[Sequence[Char]], shown: Callable[[str], str]) -> list[list[Run]]:
    """Return what is on a screen as runs; `shown` changes what differs from run to run, and no look."""
    lines = []
    for row in rows:
        runs, column = [], 0
        for look, letters in groupby(row, _look_of):
            text = "".join(letter.data for letter in letters)
            for part in re.finditer(r"\S+(?: \S+)*", text):
                runs.append(Run(column + cells(text[: part.start()]), shown(part[0]), look))
                column += cells(runs[-1].text) - cells(part[0])
            column += cells(text)
        lines.append(runs)
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _look_of(letter: Char) -> str:
    colour = _COLOURS.get(letter.fg, "ink")
    return f"{colour} strong" if letter.bold else colour


def read_lines(printed: str) -> Iterator[list[Run]]:
    """Yield each line that was printed as its runs, without the blanks around them; raise for any other sign."""
    style = ""
    for line in _ERASED.sub("", printed.replace("\r\n", "\n")).rstrip("\n").split("\n"):
        runs, column = [], 0
        for number, part in enumerate(_SIGN.split(line)):
            if number % 2:
                style = "" if part in ("", "0") else f"{style} {_STYLES[part]}".strip()
                continue
            if not part.isprintable():
                raise ValueError(f"a picture cannot show {part!r}")
            if part.strip():
                before = len(part) - len(part.lstrip())
                runs.append(
                    Run(column + before, part.strip(), style if style not in _UNCOLOURED else f"ink {style}".strip())
                )
            column += cells(part)
        yield runs
