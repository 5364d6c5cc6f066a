"""Mistakes in pipeline files, marked in the text with « and », and what a check finds of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bub.base.diagnostics import Diagnostic, Position, Range, sort_diagnostics
from bub.pipeline.check.outline import outline_of
from bub.pipeline.check.validate import ProfileChecker, check_document, check_outline, check_profile, profiles_of
from bub.pipeline.source.merge import load_text

OWN_GATE = "hooks: {moderate: {kind: gate, takes: [prompt]}}\n"
"""The hook of a gate that a pipeline file makes itself."""

Write = Callable[[str, str], Path]


VERSION = "version: 1\n"


NO_TIMEOUT = "B183"
"""The note that a stage has no time-out, which few texts of tests give theirs."""


def check(text: str, environment: dict[str, str] | None = None, *, timeouts: bool = False) -> tuple[Diagnostic, ...]:
    """What `bub validate` finds in a text, for every profile it has; with `timeouts` also which stages have none."""
    document = load_text(text)
    checker = ProfileChecker(outline_of(document))
    found = [*check_document(document, environment), *check_outline(checker.outline)]
    for profile in profiles_of(document):
        found += check_profile(checker, profile)
    return sort_diagnostics(one for one in found if timeouts or one.code != NO_TIMEOUT)


def marked(text: str) -> tuple[str, list[Range]]:
    """The text without `«` and `»`, and the ranges that stood between them."""
    ranges = []
    plain = ""
    for piece in re.split("(«[^»]*»)", text):
        start = _end(plain)
        plain += piece.strip("«»")
        if piece.startswith("«"):
            ranges.append(Range(start, _end(plain)))
    return plain, ranges


def _end(text: str) -> Position:
    return Position(text.count("\n") + 1, len(text) - text.rfind("\n"))


def repaired(text: str, finding: Diagnostic) -> str:
    """The text with a finding's `fix` in the place it points at."""
    lines = text.split("\n")
    start, end = finding.range
    assert start.line == end.line
    line = lines[start.line - 1]
    lines[start.line - 1] = f"{line[: start.column - 1]}{finding.fix}{line[end.column - 1 :]}"
    return "\n".join(lines)


def said(findings: tuple[Diagnostic, ...]) -> list[str]:
    return [f"{finding.code} {finding.range.start.line}: {finding.message}" for finding in findings]


@dataclass(frozen=True)
class Mistake:
    """A text with the one mistake between « and », what is said of it, and what to change so that it is right."""

    code: str
    text: str
    message: str
    help: str | None
    mend: tuple[str, str]
    related: str = ""
    severity: str = "error"


def assert_is_found(mistake: Mistake) -> None:
    """Assert that a mistake is one finding at its place, and that its mended twin has none."""
    text, (place,) = marked(VERSION + mistake.text)
    found = check(text, timeouts=mistake.code == NO_TIMEOUT)
    assert said(found) == [f"{mistake.code} {place.start.line}: {mistake.message}"]
    (finding,) = found
    assert finding.range == place
    assert finding.severity == mistake.severity
    assert finding.help == mistake.help
    assert [related.message for related in finding.related] == ([mistake.related] if mistake.related else [])
    assert finding.path or finding.code in ("B160", "B161")

    wrong, right = mistake.mend
    start = (
        len("\n".join(text.splitlines()[: place.start.line - 1]))
        if wrong in text.splitlines()[place.start.line - 1]
        else 0
    )
    assert wrong in text[start:]
    mended = text[:start] + text[start:].replace(wrong, right, 1)
    assert said(check(mended, timeouts=mistake.code == NO_TIMEOUT)) == []
    if finding.fix is not None:
        assert said(check(repaired(text, finding))) == []
