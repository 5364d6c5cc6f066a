"""The user's own pipeline file: read to be changed, and written only with a text that is no worse than the old one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from bub.base.diagnostics import Diagnostic, PipelineError
from bub.base.resources import is_shipped
from bub.base.rewrite import rewrite, write_private
from bub.errors import UsageError
from bub.pipeline.check.schema_finding import LITERAL_SECRET
from bub.pipeline.check.validate import check_loaded
from bub.pipeline.source.merge import load_document, load_text
from bub.pipeline.source.yaml_reader import parse

FindingContent = tuple[str, str, str | None]
"""A finding by its code, message and profile, since edits move its place."""

_NO_TEXT = ("B009", "B010")
"""The findings about bytes that are no text: too many, or not UTF-8."""


class OwnFile(NamedTuple):
    """A file as it was read: `file` is its name in messages, `data` None if there is none yet."""

    path: Path
    file: str
    data: bytes | None
    text: str


def new_own(path: Path) -> OwnFile:
    """Return a pipeline file that is to be made, over the shipped default; nothing is written yet."""
    return OwnFile(path, str(path), None, "version: 1\nextends: bub:default\n")


def refuse_shipped(path: Path) -> None:
    """Raise `UsageError` for a pipeline that is shipped with Bub, whose files are not written."""
    if is_shipped(path):
        raise UsageError(
            f"bub:{path.stem} is shipped with Bub, so it is not changed",
            help=f"write a file of your own with `extends: bub:{path.stem}`",
        )


def read_own(path: Path, *, even_broken: bool = False) -> OwnFile:
    """Read a pipeline file that is to be changed.

    Raises `UsageError` for a shipped file and for one that cannot be read, and `PipelineError` with its findings for
    one that is no proper YAML, so that nobody knows for sure what it says; `even_broken` takes that one, too, as long
    as it is text.
    """
    refuse_shipped(path)
    document = load_document(path)
    data = path.read_bytes()
    broken = [item for item in parse(data, file=document.file, layer="").findings if item.severity == "error"]
    is_text = not any(item.code in _NO_TEXT for item in broken)
    if broken and not (even_broken and is_text):
        raise PipelineError(broken)
    return OwnFile(path, document.file, data, data.decode())


def findings_in(own: OwnFile, text: str) -> tuple[Diagnostic, ...]:
    """Return everything that `bub validate` would find in a file with another text, in all of its profiles."""
    return check_loaded(load_text(text, file=own.file, base=own.path.parent)).diagnostics


def check_change(own: OwnFile, text: str) -> None:
    """Raise `PipelineError` with every error that a file would have with another text and does not have now.

    What tells of secrets in plain text is among the findings, too, since reports cover these by it.
    """
    after = findings_in(own, text)
    new = count_errors(after) - count_errors(findings_in(own, own.text))
    if new:
        raise PipelineError(item for item in after if content_of_finding(item) in new or item.code == LITERAL_SECRET)


def write_change(own: OwnFile, text: str, *, even_broken: bool = False) -> Path | None:
    """Give a file another text and return the backup beside it; None if there is none, or nothing to change.

    The text is checked first, unless `even_broken`; see `check_change`. The file is written as a whole or not at all.
    One that was not there yet can be read by nobody else (mode 0600), any other keeps its mode. Raises `BubError`, the
    file untouched, when somebody else has changed it since it was read, or when it cannot be written.
    """
    if own.data is not None and text == own.text:
        return None
    if not even_broken:
        check_change(own, text)
    if own.data is not None:
        return rewrite(own.path, own.data, text.encode())
    write_private(own.path, None, text.encode())
    return None


def describe_backup(own: OwnFile, text: str, backup: Path | None) -> str:
    """Return a clause about the text that a file had: the place it is kept at, and whether it still holds a key."""
    if backup is None:
        return "a new file"
    if not _plain_secrets(own, own.text) - _plain_secrets(own, text):
        return f"as it was: {backup.name}"
    return f"as it was, with the old key in plain text: {backup.name}, which only you can read; delete it in the end"


def _plain_secrets(own: OwnFile, text: str) -> set[str]:
    """Return the lines of a text in which a secret stands literally."""
    lines = text.splitlines()
    found = (item for item in findings_in(own, text) if item.code == LITERAL_SECRET and item.file == own.file)
    return {line for item in found for line in lines[item.range.start.line - 1 : item.range.end.line]}


def count_errors(findings: Iterable[Diagnostic]) -> Counter[FindingContent]:
    """Return the errors among some findings, by what they say."""
    return count_findings(finding for finding in findings if finding.severity == "error")


def count_findings(findings: Iterable[Diagnostic]) -> Counter[FindingContent]:
    """Count findings by their content."""
    return Counter(map(content_of_finding, findings))


def content_of_finding(finding: Diagnostic) -> FindingContent:
    """Return what a finding says, without its place."""
    return finding.code, finding.message, finding.profile
