"""What came of tests as people read it: a line for each, and for one that failed what was expected and what came."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Any

from bub.base.duration import format_duration
from bub.base.layout import Line, Span, line
from bub.base.trace import TurnRecord
from bub.testing.coverage import Coverage
from bub.testing.matching import Failure
from bub.testing.report import Report
from bub.testing.running import Verdict

_LONGEST = 200
"""Characters of a value that are shown."""
_MOST_LINES = 40
_MOST_COMPARED = 5_000
"""Characters of a value that are looked through for what is most like a text that it lacks."""

_MISSING = {
    "ran": "never ran",
    "skipped": "was never skipped by its `when`",
    "denied": "never denied",
    "claimed": "never claimed",
    "default": "never used its default",
    "timeout": "never ran into its time-out",
    "failed": "never failed",
}


def verdict_lines(verdict: Verdict) -> Iterator[Line]:
    """Yield what came of one test."""
    mark = Span("✓", "good") if verdict.passed else Span("✗", "bad")
    took = Span(f"  {format_duration(verdict.took)}" if verdict.took else "", "faint")
    yield (mark, Span(f" {verdict.trial.id}"), took)
    if verdict.passed:
        return
    for failure in verdict.failures:
        yield from _failure(failure)
    if verdict.trace:  # of several turns, it is the last one that did not come as expected
        number = f" {len(verdict.traces)}" if len(verdict.traces) > 1 else ""
        yield (Span(f"    turn{number}  ", "faint"), Span(", ".join(map(_record, verdict.traces[-1]))))
    for stage, text, _ in verdict.told:
        if not any(text in str(failure.got) for failure in verdict.failures):
            yield (Span("    told  ", "faint"), Span(f"{stage}: {text}"))


def coverage_lines(coverage: Coverage) -> Iterator[Line]:
    """Yield what the tests do not reach of one profile."""
    reached = coverage.branches - len(coverage.missing)
    share = f"{coverage.percent} % ({reached} of {coverage.branches})"
    yield (Span(f"{coverage.file}, profile {coverage.profile}: "), Span(share, "" if coverage.missing else "good"))
    for branch in coverage.missing:
        yield (Span(f"    {branch.place}: ", "faint"), Span(f"stage `{branch.stage}` {_MISSING[branch.what]}"))


def summary(report: Report) -> Line:
    """Return one line that closes a report."""
    passed = len(report.verdicts) - report.failed
    parts = [f"{number} {word}" for number, word in ((report.failed, "failed"), (passed, "passed")) if number]
    files = "1 file" if report.files == 1 else f"{report.files} files"
    return line(f"{', '.join(parts)} in {files}", "bad" if report.failed else "good")


def _record(record: TurnRecord) -> str:
    return record.stage if record.outcome == "ok" else f"{record.stage} {record.outcome}"


def _failure(failure: Failure) -> Iterator[Line]:
    if not failure.path:
        yield (Span(f"    {failure.place}: ", "faint"), Span(str(failure.got)))
        return
    yield (Span(f"    {failure.place}: ", "faint"), Span(failure.path))
    expected, got = failure.expected, failure.got
    if failure.how:
        yield (Span(f"      {failure.how:8}  ", "faint"), Span(_near(_in_json(expected), 0)))
        yield (Span("      got       ", "faint"), Span(_like(_in_json(got), _in_json(expected))))
    elif isinstance(expected, str) and isinstance(got, str) and "\n" in f"{expected}{got}":
        yield from _line_by_line(expected, got)
    else:
        texts = [_in_json(expected), _in_json(got)]
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False)))
        for label, text in zip(("expected", "got     "), texts, strict=True):
            yield (Span(f"      {label}  ", "faint"), Span(_near(text, same)))


def _line_by_line(expected: str, got: str) -> Iterator[Line]:
    yield line("      - expected, + got", "faint")
    compared: Iterable[str] = difflib.ndiff(expected.splitlines(), got.splitlines())
    shown = [text for text in compared if not text.startswith("?")]
    for text in shown[:_MOST_LINES]:
        yield line(f"      {text}", "bad" if text[0] != " " else "")
    if len(shown) > _MOST_LINES:
        yield line(f"      … {len(shown) - _MOST_LINES} more lines", "faint")


def _in_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _like(text: str, wanted: str) -> str:
    """Return a long text cut around the place that is most like what was looked for in it."""
    if len(text) <= _LONGEST:
        return text
    found = difflib.SequenceMatcher(None, text[:_MOST_COMPARED], wanted, autojunk=False).find_longest_match()
    return _near(text, found.a)


def _near(text: str, same: int) -> str:
    """Return a long text cut around the place where it differs from the other one."""
    start = max(0, min(same - _LONGEST // 4, len(text) - _LONGEST))
    end = start + _LONGEST
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
