"""A pipeline as it is in the editor: read with the open texts, checked, and looked up in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from bub.base.diagnostics import Diagnostic, Range
from bub.base.json_schema import Steps
from bub.base.resources import shipped_pipeline
from bub.lsp.buffers import Buffer, Encoding, Opened, Ruler, split_lines
from bub.pipeline.check.validate import Shared, check_loaded
from bub.pipeline.plan.origins import Lookup, lookup_of
from bub.pipeline.plan.plan import make_plan
from bub.pipeline.source.document import Node
from bub.pipeline.source.merge import DEFAULT_PROFILE, DISK, SHIPPED, Document, Parents, load_document, load_text


class Open(msgspec.Struct, frozen=True):
    """An open pipeline: its text, and the document that it is with all it extends."""

    buffer: Buffer
    document: Document

    @property
    def root(self) -> Node | None:
        """What the file itself says; None if its YAML cannot be read."""
        own = self.document.layers[-1:]
        return own[0].root if own and own[0].file == self.document.file else None

    def lookup(self, steps: Steps = ()) -> Lookup:
        """Return what values are looked up in: the pipeline of the profile that a path is about."""
        profile = str(steps[1]) if steps[:1] == ("profiles",) and len(steps) > 1 else DEFAULT_PROFILE
        return lookup_of(make_plan(self.document, profile), {})

    def path_of(self, file: str) -> Path | None:
        """Return where a file lies that a place of this document names; None if it lies nowhere."""
        if file == self.document.file:
            return self.buffer.path
        if file.startswith(SHIPPED):
            return shipped_pipeline(file.removeprefix(SHIPPED))
        folder = self.document.folders.get(file)
        return folder / Path(file).name if folder is not None else None


def location_of(pipeline: Open, file: str, span: Range, encoding: Encoding) -> dict[str, Any] | None:
    """Return a range in one of the files of a pipeline as the client's location; None for a file that lies nowhere."""
    if file == pipeline.document.file:
        return {"uri": pipeline.buffer.uri, "range": Ruler(pipeline.buffer.lines, encoding).range(span)}
    path = pipeline.path_of(file)
    if path is None:
        return None
    lines = split_lines(pipeline.document.sources.get(file, ""))
    return {"uri": _without_detours(path).as_uri(), "range": Ruler(lines, encoding).range(span)}


def _without_detours(path: Path) -> Path:
    """Return the path as an editor says it: without the `..` that lead from a child's folder to its parent."""
    plain = Path(os.path.normpath(path.absolute()))
    real = path.resolve()
    return plain if plain.resolve() == real else real  # a `..` behind a link leads elsewhere


class Reader:
    """Reads open texts again and again; what they extend is read and checked once, until it changes."""

    def __init__(self) -> None:
        self._shared = Shared()
        self._stamps: dict[Path, object] = {}

    def check(self, buffer: Buffer, texts: Mapping[str, str]) -> tuple[Open, tuple[Diagnostic, ...]]:
        """Return an open text as a pipeline, and everything that `bub validate` finds in it and in its parents."""
        opened = Opened(texts)
        if any(_stamp(path, opened) != stamp for path, stamp in self._stamps.items()):
            self._shared, self._stamps = Shared(), {}
        pipeline = read(buffer, texts, self._shared.parents)
        for file in pipeline.document.folders:
            path = pipeline.path_of(file)
            if path is not None and file != pipeline.document.file and not file.startswith(SHIPPED):
                self._stamps[path] = _stamp(path, opened)
        return pipeline, check_loaded(pipeline.document, shared=self._shared).diagnostics


def read(buffer: Buffer, texts: Mapping[str, str], parents: Parents | None = None) -> Open:
    """Return a text as a pipeline; what it extends is read from the open `texts`, else from the disk."""
    if buffer.path is None:
        name = PurePosixPath(buffer.uri).name or buffer.uri
        return Open(buffer, load_text(buffer.text, file=name, parents=parents))
    opened = Opened({**texts, DISK.identity(buffer.path): buffer.text})
    return Open(buffer, load_document(buffer.path, tree=opened, parents=parents))


def _stamp(path: Path, opened: Opened) -> object:
    text = opened.texts.get(opened.identity(path))
    if text is not None:
        return text
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
