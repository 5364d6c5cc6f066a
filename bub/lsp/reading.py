"""A pipeline as it is in the editor: read with the open files, checked, and looked up in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from bub.base.diagnostics import Diagnostic, Range
from bub.base.json_schema import Steps
from bub.lsp.buffers import Buffer, Encoding, Ruler, split_lines
from bub.pipeline.check.opened.texts import OpenText, own_root, path_in
from bub.pipeline.check.opened.texts import Reader as TextReader
from bub.pipeline.plan.origins import Lookup, lookup_of
from bub.pipeline.plan.plan import make_plan
from bub.pipeline.source.document import Node
from bub.pipeline.source.merge import DEFAULT_PROFILE, Document


class Open(msgspec.Struct, frozen=True):
    """An open pipeline: its text, and the document that it is with all it extends."""

    buffer: Buffer
    document: Document

    @property
    def root(self) -> Node | None:
        """What the file itself says; None if its YAML cannot be read."""
        return own_root(self.document)

    def lookup(self, steps: Steps = ()) -> Lookup:
        """Return what values are looked up in: the pipeline of the profile that a path is about."""
        profile = str(steps[1]) if steps[:1] == ("profiles",) and len(steps) > 1 else DEFAULT_PROFILE
        return lookup_of(make_plan(self.document, profile), {})

    def path_of(self, file: str) -> Path | None:
        """Return where a file lies that a place of this document names; None if it lies nowhere."""
        return self.buffer.path if file == self.document.file else path_in(self.document, file)


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
    """Reads open files again and again; what they extend is read and checked once, until it changes."""

    def __init__(self) -> None:
        self._reader = TextReader()

    def check(self, buffer: Buffer, texts: Mapping[str, str]) -> tuple[Open, tuple[Diagnostic, ...]]:
        """Return an open text as a pipeline, and everything that `bub validate` finds in it and in its parents."""
        document, findings = self._reader.check(_as_text(buffer), texts)
        return Open(buffer, document), findings


def read(buffer: Buffer, texts: Mapping[str, str]) -> Open:
    """Return a text as a pipeline; what it extends is read from the open `texts`, else from the disk."""
    return Open(buffer, _as_text(buffer).read(texts))


def _as_text(buffer: Buffer) -> OpenText:
    return OpenText(buffer.text, buffer.path, PurePosixPath(buffer.uri).name or buffer.uri)
