"""Reading a pipeline for a command that shows it and runs nothing: no plugin is loaded and no trust is needed."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bub.base.locate import FILE_NAME, find_pipeline
from bub.cli.options import Options, workspace_of
from bub.cli.terminal import printable
from bub.errors import UsageError
from bub.pipeline.check.validate import check_loaded
from bub.pipeline.plan.plan import Plan, make_plan
from bub.pipeline.source.merge import DEFAULT_PROFILE, ENDINGS, SHIPPED, Document, load_document, load_shipped
from bub.pipeline.source.profiles import effective


def read_plan(options: Options, path: Path | None = None) -> tuple[Plan, int]:
    """Return the plan of a file (`path`, else the one that `bub run` would use), and how many errors the file has.

    A path is a file, a folder with a `pipelines.yaml`, or `bub:NAME`. One line on standard error says how many errors
    there are. Raises `UsageError` for a file that cannot be read and a profile that it does not have.
    """
    document = _document(options, path)
    profile = options.profile or os.environ.get("BUB_PROFILE") or DEFAULT_PROFILE
    for finding in effective(document, profile).findings:
        if finding.code == "B162" and finding.profile == profile and document.complete:
            raise UsageError(finding.message, help=finding.help)
    named = path or options.config
    return make_plan(document, profile), _report_errors(document, named, (profile,))


def read_document(options: Options) -> tuple[Document, int]:
    """Return the document that a command means, and how many errors all of its profiles have together."""
    document = _document(options, None)
    return document, _report_errors(document, options.config, None)


def _report_errors(document: Document, named: Path | None, profiles: Sequence[str] | None) -> int:
    checked = check_loaded(document, profiles=profiles)
    errors = sum(finding.severity == "error" for finding in checked.diagnostics)
    if errors:
        count, them = (f"{errors} errors", "them") if errors > 1 else ("1 error", "it")
        name = f" {named}" if named is not None else ""
        print(printable(f"bub: {document.file} has {count}; `bub validate{name}` lists {them}"), file=sys.stderr)
    return errors


def names_pipeline(word: str) -> bool:
    """Whether a word of the command line can only be the name of a pipeline: `bub:NAME`, or that of a YAML file."""
    return word.startswith(SHIPPED) or word.endswith(ENDINGS)


def file_meant_by(path: Path) -> Path:
    """Return the pipeline file that a path on the command line means: itself, or that of a folder."""
    return path / FILE_NAME if os.path.isdir(path) else path  # noqa: PTH112 (it never raises)


def _document(options: Options, path: Path | None) -> Document:
    named = path or options.config
    if named is not None and str(named).startswith(SHIPPED):
        return load_shipped(str(named).removeprefix(SHIPPED))
    if path is not None:
        return load_document(file_meant_by(path))
    found = find_pipeline(options.config, workspace_of(options), os.environ)
    return load_document(found.path) if found.path is not None else load_shipped("default")
