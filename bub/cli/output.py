"""Lines of a page on standard output: coloured for a terminal, plain in a pipe, ASCII if it can show no more."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from bub.base.layout import Line, Span
from bub.cli.exits import in_color
from bub.cli.terminal import printable
from bub.pipeline.report.report import no_command_in_json

_WIDEST = 100
_NARROWEST = 20
_COLORS: Mapping[str, str] = MappingProxyType(
    {"strong": "\x1b[1m", "faint": "\x1b[2m", "warn": "\x1b[33m", "good": "\x1b[32m", "bad": "\x1b[31m"}
)
_PLAIN = "\x1b[0m"
_ASCII = str.maketrans("→│┊─┄├┤┬┴┼╭╮╰╯┌└●◆◇○", ">|:--+++++......*#%o", "") | {
    ord("…"): "...",
    ord("✓"): "ok",
    ord("✗"): "FAILED",
}


def page_width() -> int:
    """Return how many cells a line may have: the terminal's width, 80 in a pipe, 100 at most."""
    return max(_NARROWEST, min(shutil.get_terminal_size().columns, _WIDEST))


def file_size(size: int) -> str:
    """Return a number of bytes as people read it, counted as `bub local install` and most file managers count."""
    for unit, one in (("MB", 2**20), ("kB", 2**10)):
        if size >= one:
            return f"{size / one:,.1f} {unit}"
    return f"{size} bytes"


def show(lines: Iterable[Line]) -> None:
    """Print the lines of a page."""
    colored = in_color(sys.stdout)
    for line in lines:
        print(_fit_encoding("".join(_colorize(span, colored) for span in line).rstrip()))


def show_json(document: Any, **form: Any) -> None:
    """Print a document as JSON, `form` as `json.dumps` takes it; in the log of a workflow it gives no commands."""
    print(no_command_in_json(json.dumps(document, **form)))


def _colorize(span: Span, colored: bool) -> str:
    text = printable(span.text)
    color = _COLORS.get(span.tone) if colored and text.strip() else None
    return f"{color}{text}{_PLAIN}" if color else text


def _fit_encoding(text: str) -> str:
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return text.translate(_ASCII)
    return text
