"""The two sides of a comparison as people name them: a file, a shipped pipeline, or a file at a git revision."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bub.base.locate import FILE_NAME
from bub.errors import UsageError
from bub.pipeline.show.revisions import revision_of
from bub.pipeline.source.merge import SHIPPED, Document, load_document, load_shipped

GIT = "git:"
"""What a side at a git revision begins with."""

_USUAL = "default"
"""The shipped pipeline that runs if there is no file."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side: the file at `path` or the pipeline `bub:NAME`, at a git `revision` if one is said.

    Without a `path` it is the file of the other side; without a `profile` all of them are meant.
    """

    path: str | None = None
    revision: str | None = None
    profile: str | None = None

    @property
    def file(self) -> str | None:
        """The path of the file that is meant, if any."""
        is_shipped = self.revision is None and self.path is not None and self.path.startswith(SHIPPED)
        return None if is_shipped else self.path


def read_side(text: str) -> Side:
    """Read `FILE`, `bub:NAME`, `git:REV` or `git:REV:FILE`, with `#PROFILE` behind it or without."""
    name: str = text
    profile: str | None = None
    if "#" in text and not os.path.lexists(text):  # a file may have a `#` in its name
        name, _, profile = text.rpartition("#")
    if name in ("", GIT) or profile == "":
        raise UsageError(f"`{text}` names no pipeline", help="write FILE, bub:NAME, git:REV or git:REV:FILE")
    if not name.startswith(GIT):
        return Side(name, None, profile)
    revision, _, path = name.removeprefix(GIT).partition(":")
    return Side(path or None, revision, profile)


def two_sides(first: str | None, second: str | None) -> tuple[Side, Side]:
    """Return the old side and the new one.

    One that is left out is added: a file is compared with what it was at `git:HEAD`, anything else with the file as
    it is now; nothing at all means the usual file, in both ways.
    """
    if first is not None and second is not None:
        return read_side(first), read_side(second)
    named = read_side(first) if first is not None else Side(revision="HEAD")
    if named.revision is None and named.file is not None:
        return Side(revision="HEAD"), named
    return named, Side(named.file)


def open_sides(old: Side, new: Side, usual: Callable[[], Path | None]) -> tuple[Document, Document]:
    """Read both sides; `usual` finds the file that is meant if neither names one, None if that is shipped.

    Raises `UsageError` for a file, a shipped pipeline or a revision that does not exist.
    """
    after = _open(new, new.path or old.file, usual)
    return _open(old, old.path or new.file, usual), after


def _open(side: Side, name: str | None, usual: Callable[[], Path | None]) -> Document:
    if side.revision is None and name is not None and name.startswith(SHIPPED):
        return load_shipped(name.removeprefix(SHIPPED))
    path = Path(name) if name is not None else usual()
    if path is not None and os.path.isdir(path):  # noqa: PTH112 (unlike `Path.is_dir`, it never raises)
        path = path / FILE_NAME
    if side.revision is None:
        return load_document(path) if path is not None else load_shipped(_USUAL)
    if path is None:
        raise UsageError("there is no pipeline file to look for in git", help="name one: `git:REV:FILE`")
    # The folder may have been removed since: any folder above it lies in the same repository.
    folder = next(above for above in path.absolute().parents if above.is_dir())
    revision = revision_of(side.revision, folder)
    return load_document(Path(os.path.realpath(path.parent)) / path.name, tree=revision)
