"""What came of tests in the forms that others show: annotations of GitHub, and JUnit's XML."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from bub.pipeline.report.annotations import annotate, render_annotations
from bub.testing.report import Report, describe_failure, explain_failure
from bub.testing.running import Verdict


def render_github(report: Report, root: Path) -> str:
    """Return a command to the runner of a workflow for each finding and failure; `root` is the repository's folder."""
    lines = [render_annotations(report.findings, root)]
    for verdict in report.verdicts:
        for failure in verdict.failures:
            where, text = failure.place, _one_line(explain_failure(failure))
            lines.append(annotate("error", f"bub test: {verdict.trial.name}", text, where.file, where.range, root))
    return "".join(lines)


def render_junit(report: Report) -> str:
    """Return the report as XML of JUnit's form: a suite for each file; times are virtual, in seconds.

    A file with an error is a suite of its own, in which that error is a test that could not run.
    """
    files = dict.fromkeys(verdict.trial.file for verdict in report.verdicts)
    errors = [finding for finding in report.findings if finding.severity == "error"]
    lines = ['<?xml version="1.0" encoding="utf-8"?>']
    counted = f'tests="{len(report.verdicts) + len(errors)}" failures="{report.failed}" errors="{len(errors)}"'
    lines.append(f"<testsuites {counted}>")
    for file in files:
        verdicts = [verdict for verdict in report.verdicts if verdict.trial.file == file]
        failed = sum(not verdict.passed for verdict in verdicts)
        time = f"{sum(verdict.took for verdict in verdicts):g}"
        lines.append(f'<testsuite name="{_text(file)}" tests="{len(verdicts)}" failures="{failed}" time="{time}">')
        for verdict in verdicts:
            lines += _case(verdict)
        lines.append("</testsuite>")
    for finding in errors:
        line = f' line="{finding.range.start.line}"'
        message = _text(f"{finding.code}: {finding.message}")
        lines.append(f'<testsuite name="{_text(finding.file)}" tests="1" failures="0" errors="1">')
        lines.append(f'<testcase classname="{_text(finding.file)}" name="{finding.code}"{line}>')
        lines.append(f'<error message="{message}">{_text(finding.help or "")}</error></testcase>')
        lines.append("</testsuite>")
    return "\n".join([*lines, "</testsuites>", ""])


def _case(verdict: Verdict) -> Iterator[str]:
    trial = verdict.trial
    place = f'file="{_text(trial.file)}" line="{trial.place.range.start.line}"'
    head = f'<testcase classname="{_text(trial.file)}" name="{_text(trial.name)}" {place} time="{verdict.took:g}"'
    if verdict.passed:
        yield f"{head}/>"
        return
    yield f"{head}>"
    for failure in verdict.failures:
        message = _text(_one_line(explain_failure(failure)))
        yield f'<failure message="{message}">{_text(describe_failure(failure))}</failure>'
    yield "</testcase>"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _text(text: str) -> str:
    """Return a text as XML has it, without the signs that XML cannot have."""
    return escape("".join(sign if sign.isprintable() or sign in "\n\t" else "�" for sign in text))
