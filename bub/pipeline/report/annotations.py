"""Findings as GitHub shows them beside the lines of a change: commands to the runner of a workflow."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bub.base.diagnostics import NO_FILE, Diagnostic, Range, sort_diagnostics
from bub.pipeline.report.handbook import address_of
from bub.pipeline.report.report import message_of, path_below, printable_line, repair_of


def render_annotations(diagnostics: Iterable[Diagnostic], root: Path, pages: str | None = None) -> str:
    """Return one workflow command a line for each finding, in the order of a reader; `root` is the repository's folder.

    What lies outside the repository (`bub:default`, standard input) is named in the message instead. `pages` is the
    address in the web of the page of codes, if there is one.
    """
    return "".join(_annotation(item, root, pages) for item in sort_diagnostics(diagnostics))


def _annotation(item: Diagnostic, root: Path, pages: str | None) -> str:
    level = "notice" if item.severity == "note" else item.severity
    repair = repair_of(item)
    ways = [address_of(item.code, pages) if pages else f"bub explain {item.code}"]
    ways += [f"{repair} repairs this"] if repair else []
    text = "\n".join([message_of(item), *([printable_line(item.help)] if item.help else []), "; ".join(ways)])
    return annotate(level, f"bub {item.code}", text, item.file, item.range, root)


def annotate(level: str, title: str, text: str, file_name: str, span: Range, root: Path) -> str:
    """Return the command that shows a text at a place; `level` is `error`, `warning` or `notice`."""
    file, (start, end) = path_below(root, file_name), span
    properties: dict[str, str] = {}
    if file_name == NO_FILE:
        pass  # it is about no line of any file, and says itself which variable it is about
    elif file is None:
        text = f"{printable_line(file_name)}:{start.line}:{start.column}: {text}"
    else:
        properties |= {"file": file, "line": str(start.line), "col": str(start.column), "endLine": str(end.line)}
        if start.line == end.line:  # else a column says nothing to GitHub
            properties["endColumn"] = str(end.column)
    properties["title"] = title
    said = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{level} {said}::{_data(text)}\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
