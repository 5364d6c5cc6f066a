"""Findings as GitHub shows them beside the lines of a change: commands to the runner of a workflow."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bub.base.diagnostics import NO_FILE, Diagnostic, sort_diagnostics
from bub.pipeline.report.report import message_of, path_below, printable_line


def render_annotations(diagnostics: Iterable[Diagnostic], root: Path) -> str:
    """Return one workflow command a line for each finding, in the order of a reader; `root` is the repository's folder.

    What lies outside the repository (`bub:default`, standard input) is named in the message instead.
    """
    return "".join(_annotation(item, root) for item in sort_diagnostics(diagnostics))


def _annotation(item: Diagnostic, root: Path) -> str:
    file, (start, end) = path_below(root, item.file), item.range
    message = message_of(item)
    properties: dict[str, str] = {}
    if item.file == NO_FILE:
        pass  # it is about no line of any file, and says itself which variable it is about
    elif file is None:
        message = f"{printable_line(item.file)}:{start.line}:{start.column}: {message}"
    else:
        properties |= {"file": file, "line": str(start.line), "col": str(start.column), "endLine": str(end.line)}
        if start.line == end.line:  # else a column says nothing to GitHub
            properties["endColumn"] = str(end.column)
    properties["title"] = f"bub {item.code}"
    said = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    text = message + (f"\n{printable_line(item.help)}" if item.help else "")
    level = "notice" if item.severity == "note" else item.severity
    return f"::{level} {said}::{_data(text)}\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
