"""A text of the pipeline file as one types it: what `bub lsp` finds in it, and what would change against what runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import perf_counter
from typing import Any

import trio

from bub.base.diagnostics import Diagnostic, PipelineError, Range, sort_diagnostics
from bub.errors import UsageError
from bub.pipeline.check.opened.texts import OpenText, Reader, where_named
from bub.pipeline.report.handbook import page_of
from bub.pipeline.report.report import message_of
from bub.pipeline.report.sarif import repaired_text
from bub.pipeline.show.change_pages import change_page, group_changes
from bub.pipeline.show.compare import compare
from bub.pipeline.show.explain import about_code
from bub.pipeline.source.merge import Document
from bub.runtime.generations import Generation
from bub.secrets.redactor import Redactor
from bub.studio.views.loaded import NotThereError

_UNNAMED = "pipelines.yaml"
"""What a text is called that has no file yet."""


class TextChecker:
    """Checks the text that a page sends, one at a time and in a thread; of those that wait, the last one counts."""

    def __init__(self) -> None:
        self._reader = Reader()
        self._turn = trio.Lock()
        self._newest = 0

    async def check(self, generation: Generation, text: str, mask: Redactor) -> dict[str, Any]:
        """Return `{findings, ms, is_old}`: what `bub validate` finds in a text in the place of the pipeline file.

        No plugin is imported, and only the files that the text extends are read. `is_old` says that a newer text has
        come meanwhile: then nothing was looked for. Raises `UsageError` if the text cannot be read as a file.
        """
        self._newest += 1
        number = self._newest
        async with self._turn:
            if number != self._newest:
                return {"findings": [], "ms": 0.0, "is_old": True}
            began = perf_counter()
            findings = await trio.to_thread.run_sync(self._check, open_text(generation, text), mask)
            return {"findings": findings, "ms": round((perf_counter() - began) * 1000, 1), "is_old": False}

    async def compare(self, generation: Generation, text: str, mask: Redactor) -> dict[str, Any]:
        """Return what `compare_text` does, once no other text is looked at."""
        async with self._turn:
            return await trio.to_thread.run_sync(compare_text, generation, text, mask)

    def _check(self, text: OpenText, mask: Redactor) -> list[dict[str, Any]]:
        document, findings = self._reader.check(text, {})
        return describe_findings(document, findings, mask)


def open_text(generation: Generation, text: str) -> OpenText:
    """Return a text in the place of the pipeline file; if a shipped one is loaded, in that of a file to be made."""
    path = generation.snapshot.file
    return OpenText(text, path, path.name if path is not None else _UNNAMED)


def explain_code(code: str) -> dict[str, str]:
    """Return the page of a finding's code, as `bub explain CODE` prints it; raises `NotThereError` for another word."""
    try:
        page = about_code(code)
    except UsageError as error:
        raise NotThereError(str(error), help=error.help) from error
    if page is None:
        raise NotThereError(f"`{code}` is not the code of a finding", help="a code is written as B120")
    return {"code": page.code, "text": page.text}


def describe_findings(document: Document, findings: Iterable[Diagnostic], mask: Redactor) -> list[dict[str, Any]]:
    """Return findings for the page, in the order of a reader; those of other files are at the place that names them.

    `fix` is the text that repairs the range for sure, None if a person has to; `page` is what `explain_code` explains.
    """
    sources = {document.file: document.sources.get(document.file, "")}
    return [_describe(document, one, sources, mask) for one in sort_diagnostics(findings)]


def _describe(document: Document, one: Diagnostic, sources: Mapping[str, str], mask: Redactor) -> dict[str, Any]:
    is_own = one.file == document.file
    message = message_of(one) if is_own else f"{one.file}:{one.range.start.line}: {message_of(one)}"
    fix = repaired_text(one, sources) if is_own else None
    return {
        "code": one.code,
        "severity": one.severity,
        "message": mask.text(message),
        "help": mask.text(one.help) if one.help is not None else None,
        "file": one.file,
        "range": _describe_range(one.range if is_own else where_named(document, one.file)),
        "fix": {"title": f"Write {fix}", "text": fix} if fix is not None else None,
        "page": one.code if page_of(one.code) is not None else None,
    }


def _describe_range(span: Range) -> dict[str, dict[str, int]]:
    return {side: {"line": at.line, "column": at.column} for side, at in (("start", span.start), ("end", span.end))}


# What would change


def compare_text(generation: Generation, text: str, mask: Redactor) -> dict[str, Any]:
    """Return what a text would change against what runs, as `bub diff` says it, the dangerous first.

    `groups` are `{title, danger, changes}`, `text` is what `bub diff` prints. If the text cannot be read, `findings`
    say why, and there are no groups. Imports nothing; to be called in a thread.
    """
    running = generation.snapshot.document
    document = open_text(generation, text).read({})
    try:
        comparison = compare(running, document)
    except PipelineError as error:
        findings = [one for one in error.diagnostics if one.severity == "error"]
        return {"groups": [], "text": "", "findings": describe_findings(document, findings, mask)}
    lines = change_page(comparison, f"what runs → {document.file}")
    return {
        "groups": [
            {"title": title, "danger": danger, "changes": [mask.text(change) for change in changes]}
            for title, danger, changes in group_changes(comparison)
        ],
        "text": mask.text("\n".join("".join(span.text for span in line).rstrip() for line in lines)),
        "findings": describe_findings(document, comparison.mistakes, mask),
    }
