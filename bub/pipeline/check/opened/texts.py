"""Files that are being written, laid over those of the disk: read as pipelines and checked again and again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from bub.base.diagnostics import START, Diagnostic, Range
from bub.base.resources import shipped_pipeline
from bub.pipeline.check.validate import Shared, check_loaded
from bub.pipeline.source.document import Node
from bub.pipeline.source.merge import DISK, SHIPPED, Document, Parents, load_document, load_text
from bub.pipeline.source.yaml_reader import MAX_BYTES


class Opened(msgspec.Struct, frozen=True):
    """A tree of files (`Tree`) in which open files count before what is on the disk."""

    texts: Mapping[str, str]
    prefix: str = ""

    def read(self, path: Path) -> bytes:
        text = self.texts.get(self.identity(path))
        return DISK.read(path) if text is None else encode(text)

    def identity(self, path: Path) -> str:
        return DISK.identity(path)

    def names(self, folder: Path) -> Iterable[str]:
        return DISK.names(folder)


def encode(text: str) -> bytes:
    """Return the bytes of a text; of a huge one just enough to see that it is too large."""
    return text[: MAX_BYTES + 1].encode("utf-8", errors="surrogatepass")


class OpenText(msgspec.Struct, frozen=True):
    """A text that is being written: the file it is or will be, None if it has none yet, and what findings call that."""

    text: str
    path: Path | None
    name: str

    def read(self, texts: Mapping[str, str], parents: Parents | None = None) -> Document:
        """Read it as a pipeline; what it extends is read from the open `texts` (by identity), else from the disk."""
        if self.path is None:
            return load_text(self.text, file=self.name, parents=parents)
        opened = Opened({**texts, DISK.identity(self.path): self.text})
        return load_document(self.path, tree=opened, parents=parents)


class Reader:
    """Reads open files again and again; what they extend is read and checked once, until it changes."""

    def __init__(self) -> None:
        self._shared = Shared()
        self._stamps: dict[Path, object] = {}

    def check(self, text: OpenText, texts: Mapping[str, str]) -> tuple[Document, tuple[Diagnostic, ...]]:
        """Return an open text as a pipeline, and everything that `bub validate` finds in it and in its parents."""
        opened = Opened(texts)
        if any(_stamp(path, opened) != stamp for path, stamp in self._stamps.items()):
            self._shared, self._stamps = Shared(), {}
        document = text.read(texts, self._shared.parents)
        for file in document.folders:
            path = path_in(document, file)
            if path is not None and file != document.file and not file.startswith(SHIPPED):
                self._stamps[path] = _stamp(path, opened)
        return document, check_loaded(document, shared=self._shared).diagnostics


def path_in(document: Document, file: str) -> Path | None:
    """Return where a file lies that a place of a document names; None if it lies nowhere."""
    if file.startswith(SHIPPED):
        return shipped_pipeline(file.removeprefix(SHIPPED))
    folder = document.folders.get(file)
    return folder / Path(file).name if folder is not None else None


def own_root(document: Document) -> Node | None:
    """Return what the file itself says, without what it extends; None if its YAML cannot be read."""
    own = document.layers[-1:]
    return own[0].root if own and own[0].file == document.file else None


def where_named(document: Document, file: str) -> Range:
    """Return where the file itself names another one: what it extends, or a plugin."""
    root = own_root(document)
    if root is None:
        return START
    plugins = root.get("plugins")
    paths = [plugin.get("path") for _, plugin in (plugins.items() if plugins is not None else ())]
    named = [node for node in paths if node is not None and Path(str(node.value)).name == Path(file).name]
    extends = root.get("extends") if file in document.sources else None
    return next((node.place.range for node in (extends, *named) if node is not None), START)


def _stamp(path: Path, opened: Opened) -> object:
    text = opened.texts.get(opened.identity(path))
    if text is not None:
        return text
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
