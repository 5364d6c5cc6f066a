"""`bub test`: the tests of pipeline files, on virtual time, with mocks in place of what is not to run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from bub.base.diagnostics import Diagnostic, sort_diagnostics
from bub.base.layout import EMPTY, line
from bub.cli.exits import FAILED, in_color
from bub.cli.opening import print_warnings, usual_file
from bub.cli.options import Options, options_of, repository
from bub.cli.output import show, show_json
from bub.errors import UsageError
from bub.pipeline.report.report import render_text
from bub.pipeline.report.summary import summary as summary_of_findings
from bub.pipeline.source.discovery import NoPipelineError, discover
from bub.testing.page import coverage_lines, summary, verdict_lines
from bub.testing.published import render_github, render_junit
from bub.testing.report import Report
from bub.testing.suite import PATIENCE, Suite, open_suite


class ResultFormat(StrEnum):
    """How results are printed."""

    text = "text"
    json = "json"
    junit = "junit"
    github = "github"


def test(
    ctx: typer.Context,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH]...", help="Files, or folders with all below them; Bub loads their plugins."),
    ] = None,
    chosen: Annotated[
        str | None, typer.Option("-k", metavar="EXPRESSION", help="Only tests such as `greeting and not slow`.")
    ] = None,
    coverage: Annotated[bool, typer.Option("--coverage", help="Show what no test reaches.")] = False,
    may_be_none: Annotated[
        bool, typer.Option("--pass-with-no-tests", help="End with 0 if there are no tests, for CI.")
    ] = False,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds of real time that a test may take.")] = PATIENCE,
    format: Annotated[ResultFormat, typer.Option(help="How results are printed.")] = ResultFormat.text,  # noqa: A002 (the option)
) -> int:
    """Run the `tests:` of pipeline files, each test in its own framework and on virtual time.

    Without PATH, Bub runs those of the file that `bub run` would use. Ends with 1 if a test failed or a file has
    errors, with 2 if there are no tests, unless --pass-with-no-tests lets that pass.
    """
    options = options_of(ctx)
    try:
        findings, files = _files(options, paths)
    except NoPipelineError as error:
        if not may_be_none:
            raise
        return _pass(error, Report(0, (), ()), format)
    suites = [open_suite(file, profile=options.profile, chosen=chosen, workspace=options.workspace) for file in files]
    findings = sort_diagnostics([*findings, *chain.from_iterable(suite.findings for suite in suites)])
    is_text = format is ResultFormat.text
    if is_text:
        _tell(findings, suites)
    report = Report(len(files), findings, ())
    if report.ok:
        if not any(suite.trials for suite in suites):
            none = _no_tests(files, chosen)
            if not may_be_none or chosen is not None:
                raise none
            return _pass(none, report, format)
        report = _run(report, suites, timeout, coverage=coverage, aloud=is_text)
    _publish(report, format)
    return 0 if report.ok else FAILED


def _publish(report: Report, format: ResultFormat) -> None:  # noqa: A002 (as above)
    """Print a report for a program; people have seen theirs as it came."""
    match format:
        case ResultFormat.json:
            show_json(report.as_dict(), indent=2)
        case ResultFormat.junit:
            sys.stdout.write(render_junit(report))
        case ResultFormat.github:
            sys.stdout.write(render_github(report, repository()))


def _pass(reason: UsageError, report: Report, format: ResultFormat) -> int:  # noqa: A002 (as above)
    """End well without a test: the reason is for people, the report, in which nothing failed, for programs."""
    if format is ResultFormat.text:
        show([line(str(reason))])
    _publish(report, format)
    return 0


def _run(report: Report, suites: Sequence[Suite], timeout: float, *, coverage: bool, aloud: bool) -> Report:
    """Run all tests; with `aloud`, show each as it ends."""
    verdicts = []
    for verdict in chain.from_iterable(suite.run(timeout) for suite in suites):
        verdicts.append(verdict)
        if aloud:
            show(verdict_lines(verdict))
            sys.stdout.flush()
    covered = tuple(chain.from_iterable(suite.coverage(verdicts) for suite in suites)) if coverage else None
    report = replace(report, verdicts=tuple(verdicts), coverage=covered)
    if aloud:
        for one in covered or ():
            show([EMPTY, *coverage_lines(one)])
        show([EMPTY, summary(report)])
    return report


def _files(options: Options, paths: Sequence[str] | None) -> tuple[tuple[Diagnostic, ...], list[Path]]:
    """Return the findings about files that cannot be read, and the files that are meant."""
    named = paths or ([str(options.config)] if options.config is not None else None)
    if not named:
        usual = usual_file(options)
        if usual is None:
            raise UsageError("there is no pipeline file of yours here", help="name one: `bub test FILE`")
        return (), [usual]
    if "-" in named:
        raise UsageError("`bub test` cannot read a pipeline from a pipe", help="save it to a file, and name that file")
    meant = discover(named, sys.stdin.buffer)
    return meant.findings, [file.path for file in meant.files if file.path is not None]


def _no_tests(files: Sequence[Path], chosen: str | None) -> UsageError:
    where = str(files[0]) if len(files) == 1 else f"{len(files)} files"
    if chosen is not None:
        return UsageError(f"no test in {where} matches -k {chosen!r}", help="words are looked for in `FILE::NAME`")
    return UsageError(f"there are no tests in {where}", help="write some under `tests:`, see docs/testing.md")


def _tell(findings: Sequence[Diagnostic], suites: Sequence[Suite]) -> None:
    """Print errors as `bub validate` does; of the warnings only those about the tests, on standard error."""
    if any(finding.severity == "error" for finding in findings):
        sources = {name: text for suite in suites for name, text in suite.document.sources.items()}
        print(render_text(findings, sources, color=in_color(sys.stdout)))
        print(summary_of_findings(findings, len(suites)))
        return
    print_warnings(warning for warning in findings if warning.path.startswith("tests."))
