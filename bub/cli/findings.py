"""A pipeline that does not compile, as the command line prints it: every finding with the line it is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bub.base.diagnostics import Diagnostic, PipelineError, without_notes
from bub.pipeline.report.report import render_text
from bub.pipeline.report.summary import summary


class ShownPipelineError(PipelineError):
    """A pipeline that does not compile, with the files its findings point into."""

    def __init__(
        self, error: PipelineError, sources: Mapping[str, str], shown: Iterable[Diagnostic] | None = None
    ) -> None:
        """`shown` are those findings of the error that are to be seen; all of them if nobody says it."""
        super().__init__(error.diagnostics)
        self.sources = sources
        self.shown = tuple(shown) if shown is not None else self.diagnostics


def render_error(error: PipelineError, *, color: bool) -> str:
    """Return all findings of `error` as text, and below them a line that counts them."""
    sources = error.sources if isinstance(error, ShownPipelineError) else {}
    findings = without_notes(error.shown if isinstance(error, ShownPipelineError) else error.diagnostics)
    text = render_text(findings, sources, color=color, hidden=error.diagnostics)
    return f"{text}\nbub: {summary(findings, len({finding.file for finding in findings}))}"
