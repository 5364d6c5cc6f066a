"""Which pipeline files a change concerns: those among the changed files, and those that extend one of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from bub.base.diagnostics import Diagnostic
from bub.errors import UsageError
from bub.pipeline.source.discovery import Discovered, PipelineFile, discover, inspect_file, lies_apart, pipelines_below
from bub.pipeline.source.merge import Parents, load_document


def discover_changed(names: Iterable[str], stdin: BinaryIO) -> Discovered:
    """Return the pipelines among the named files, and each below the current folder that extends one of the named.

    What is named and would not be found in a folder is left out: whoever names what changed names other people's
    YAML, too. Raises `UsageError` for a name that nothing has.
    """
    named = discover(names, stdin)
    files: dict[str, PipelineFile] = {}
    findings = {finding.file: finding for finding in named.findings}
    for file in named.files:
        if file.path is None or file.shipped:
            files[file.name] = file
            continue
        if lies_apart(file.path):
            continue
        for found in inspect_file(file.path):
            if isinstance(found, Diagnostic):
                findings[found.file] = found
            else:
                files[os.path.realpath(found)] = file
    changed = {os.path.realpath(file.path) for file in named.files if file.path is not None}
    parents = Parents()
    for below in pipelines_below(Path()):
        if isinstance(below, Path) and changed & set(_files_of(below, parents)):
            files.setdefault(os.path.realpath(below), PipelineFile(str(below), below))
    return Discovered(tuple(files.values()), tuple(findings.values()))


def _files_of(path: Path, parents: Parents) -> Iterator[str]:
    """Yield where each file lies that a pipeline consists of, itself included."""
    try:
        document = load_document(path, parents=parents)
    except UsageError:  # it was there a moment ago
        return
    for file, folder in document.folders.items():
        yield os.path.realpath(folder / Path(file).name)
