"""A pipeline that does not compile, as the command line prints it: every finding with the line it is about."""

from __future__ import annotations

from collections.abc import Mapping

from bub.base.diagnostics import PipelineError, without_notes
from bub.pipeline.report.report import render_text, summary


class ShownPipelineError(PipelineError):
    """A pipeline that does not compile, with the texts its findings point into."""

    def __init__(self, error: PipelineError, sources: Mapping[str, str]) -> None:
        super().__init__(error.diagnostics)
        self.sources = sources


def render_error(error: PipelineError, *, color: bool) -> str:
    """Return all findings of `error` as text, and below them a line that counts them."""
    sources = error.sources if isinstance(error, ShownPipelineError) else {}
    findings = without_notes(error.diagnostics)
    text = render_text(findings, sources, color=color)
    return f"{text}\nbub: {summary(findings, len({finding.file for finding in findings}))}"
