"""Says why a plugin did not load: what its failure says, where it comes from, and what to do about it."""

from __future__ import annotations

from pathlib import Path

from bub.base.diagnostics import Position, Range
from bub.base.other_bub import OTHER
from bub.errors import BubError
from bub.plugins.finding import ListedPlugin


def in_one_line(error: BaseException) -> str:
    """Say what a plugin's failure says, with its type if it is not written for people."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 (an exception that cannot be printed must not hide the failure it stands for)
        text = ""
    if isinstance(error, BubError):
        return text  # written for people
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def syntax_range(error: SyntaxError) -> Range:
    """Say where in its file a syntax error is."""
    start = Position(error.lineno or 1, max(error.offset or 1, 1))
    end = Position(error.end_lineno or start.line, max(error.end_offset or 1, 1))
    return Range(start, max(start, end))


def line_in(error: BaseException, file: Path | None) -> int | None:
    """Find the line of `file` that the error came through last; None if it never did."""
    line = None
    trace = error.__traceback__
    while trace is not None:
        if file is not None and trace.tb_frame.f_code.co_filename == str(file):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def remedy_for(listed: ListedPlugin, error: BaseException) -> str:
    """Say what to do about a plugin that does not load."""
    if listed.optional:
        return "the plugin is optional, so the profile runs without it; the traceback is in the log"
    if isinstance(error, BubError) and error.help:
        return error.help
    if isinstance(error, ImportError) and error.name and error.name.partition(".")[0] == OTHER:
        return (
            f"it is written for the Bub on PyPI: say `plugins: {{{listed.name}: {{runtime: asyncio}}}}`, and Bub"
            f" gives it those names (docs/reference-plugins.md); or take `{listed.name}` off the list"
        )
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"install the package that brings `{error.name}`, or take `{listed.name}` off the list"
    if isinstance(error, SyntaxError) and listed.file is not None:
        return "repair the plugin, or take it off the list"
    return "repair the plugin or take it off the list; the traceback is in the log"
