"""A file and its parents: following `extends`, and laying one document over another."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PureWindowsPath
from typing import Protocol

import msgspec
from msgspec.structs import replace

from bub.base.diagnostics import START, Diagnostic, Findings, Place, did_you_mean
from bub.base.failures import explain_os_error
from bub.base.locate import leads_home
from bub.base.resources import shipped_pipeline, shipped_pipelines
from bub.errors import UsageError
from bub.pipeline.source import late
from bub.pipeline.source.document import Node
from bub.pipeline.source.yaml_reader import MAX_BYTES, Parsed, parse

SHIPPED = "bub:"
"""What the name of a shipped pipeline begins with in `extends`."""

DEFAULT_PROFILE = "default"

ENDINGS = (".yaml", ".yml")
"""What the name of a file that `extends` may name ends with."""

_NOT_INHERITED = ("extends", "tests")
"""The keys that a file does not take over from its parent: what holds of the parent need not hold of the child."""


class Tree(Protocol):
    """The tree from which a pipeline file and its parents are read: the disk, or what a folder held at another time.

    Paths are those of the disk, whatever a tree reads in their place. `prefix` is put before the names of its files
    where people read them.
    """

    @property
    def prefix(self) -> str: ...

    def read(self, path: Path) -> bytes:
        """Return the bytes of a regular file, and of a huge one just enough to see that it is too large.

        Raises OSError or ValueError, and FileNotFoundError if nothing has that name.
        """

    def identity(self, path: Path) -> str:
        """Return what two names of one file have in common."""

    def names(self, folder: Path) -> Iterable[str]:
        """Return the names of what lies in a folder; none if it cannot be read."""


class Disk(msgspec.Struct, frozen=True):
    """The files as they are now."""

    prefix: str = ""

    def read(self, path: Path) -> bytes:
        if path.is_dir():
            raise IsADirectoryError(None, "it is a folder")
        if path.exists() and not path.is_file():
            raise OSError(None, "it is not a regular file")
        with path.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)

    def identity(self, path: Path) -> str:
        try:
            return str(path.resolve())
        except (OSError, RuntimeError, ValueError):
            return str(path)

    def names(self, folder: Path) -> Iterable[str]:
        return [path.name for path in folder.glob("*")]


DISK = Disk()


class Layer(msgspec.Struct, frozen=True):
    """What one file, or one profile in one file, says: `name` is as in `Place.layer`, `file` as people know it.

    `shipped`: it was asked for as `bub:NAME`, so its text is Bub's own.
    """

    name: str
    file: str
    root: Node
    shipped: bool = False


class Document(msgspec.Struct, frozen=True):
    """A pipeline file with everything it extends.

    `layers` begin with the furthest parent; `root` is all of them merged, an empty mapping when nothing could be
    read. `sources` holds the text of each file by its name, broken ones included, `folders` where each file lies.
    `complete` is false when a part of the document could not be read, so that what is missing may lie there. `tree` is
    where it was read.
    """

    file: str
    layers: tuple[Layer, ...]
    root: Node
    findings: tuple[Diagnostic, ...]
    sources: Mapping[str, str]
    base: Path | None
    folders: Mapping[str, Path]
    complete: bool = True
    tree: Tree = DISK


def merge(low: Node, high: Node) -> Node:
    """Lay `high` over `low`: mappings merge by key, everything else replaces.

    The keys of `low` come first, in their order. `origins` collects every place that set it, weakest first.
    """
    origins = low.origins + high.origins
    if not (low.is_mapping and high.is_mapping):
        return replace(high, origins=origins)
    merged = dict(low.items())
    for name, node in high.items():
        below = merged.get(name)
        merged[name] = node if below is None else merge(below, node)
    return replace(high, value=merged, origins=origins)


def load_document(
    path: Path, *, display: str | None = None, tree: Tree = DISK, parents: Parents | None = None
) -> Document:
    """Read a pipeline file and everything it extends.

    `display` is the name that findings show; left out, it is the path seen from the current folder. The file and the
    parents that are not shipped are read from `tree`; none that `parents` has read before is read again. Raises
    `UsageError` when the file cannot be opened; what is wrong inside it, or with a parent, is a finding.
    """
    return _load(_open_source(path, tree.prefix + (display or _display_path(path)), tree=tree), parents)


def load_text(
    text: str | bytes, *, file: str = "pipelines.yaml", base: Path | None = None, parents: Parents | None = None
) -> Document:
    """Read a pipeline from a text, as if it were `file` in the folder `base`; `parents` as in `load_document`."""
    identity = DISK.identity(base / Path(file).name) if base is not None else file
    data = text if isinstance(text, bytes) else text.encode("utf-8", errors="surrogatepass")
    return _load(_Source(file, data, base, identity), parents)


def load_shipped(name: str) -> Document:
    """Read a shipped pipeline by its name without `bub:`; raises `UsageError` for a name that is not shipped."""
    path = shipped_pipeline(name)
    if path is None:
        raise UsageError(f"there is no shipped pipeline `{SHIPPED}{name}`", help=suggest_shipped(name))
    return _load(_open_source(path, f"{SHIPPED}{name}", shipped=True))


def is_own(place: Place) -> bool:
    """Whether a place is in a file that somebody can change: no shipped pipeline."""
    return not place.file.startswith(SHIPPED)


def without(node: Node, names: Iterable[str]) -> Node:
    """Return a mapping without the keys in `names`."""
    left_out = frozenset(names)
    return replace(node, value={name: child for name, child in node.items() if name not in left_out})


class _Source(msgspec.Struct, frozen=True):
    """A file that was opened: `identity` tells whether two names mean one file."""

    file: str
    data: bytes
    base: Path | None
    identity: str
    shipped: bool = False
    tree: Tree = DISK


class _ParsedSource(msgspec.Struct, frozen=True):
    """A file that was opened and read."""

    source: _Source
    parsed: Parsed


class Parents:
    """The parents that were read in one run, by their name and file: many pipelines extend the same one."""

    def __init__(self) -> None:
        self._read: dict[tuple[str, str], _ParsedSource] = {}

    @classmethod
    def shipped_of(cls, document: Document) -> Parents:
        """The shipped parents of a document that was read: no reader has to read them again."""
        parents = cls()
        for layer in document.layers:
            path = shipped_pipeline(layer.file.removeprefix(SHIPPED)) if layer.shipped else None
            if path is not None:
                parsed = Parsed(layer.root, document.sources[layer.file], ())
                source = _Source(layer.file, b"", path.parent, DISK.identity(path), shipped=True)
                parents._read[layer.file, source.identity] = _ParsedSource(source, parsed)
        return parents

    def read(self, path: Path, file: str, identity: str, shipped: bool, tree: Tree) -> _ParsedSource:
        """Return the parent at `path`, which is `file` in what is said about it."""
        key = (file, identity)
        if key not in self._read:
            self._read[key] = _parse_source(_Source(file, tree.read(path), path.parent, identity, shipped, tree))
        return self._read[key]


class _NoParentError(Exception):
    """A parent that cannot be had: the code, message and help of the finding."""

    def __init__(self, code: str, message: str, help: str | None) -> None:  # noqa: A002 (the reader's word)
        super().__init__(message)
        self.code = code
        self.help = help


def _open_source(path: Path, file: str, *, shipped: bool = False, tree: Tree = DISK) -> _Source:
    """Open the file at the top, which is `file` in what is said about it."""
    if not shipped and leads_home(path, path.parent):
        raise UsageError(
            f"{file} is a link to one of Bub's own files",
            help="remove the link: Bub uses the model of your own file in every folder; "
            "or name your own file with --config",
        )
    try:
        data = tree.read(path)
    except FileNotFoundError:
        raise UsageError(
            f"{file} does not exist", help="name a pipeline file, or leave it out for the shipped default"
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {_reason(error)}", help="name a readable pipeline file") from None
    return _Source(file, data, path.parent, tree.identity(path), shipped, tree)


def _parse_source(source: _Source) -> _ParsedSource:
    return _ParsedSource(source, parse(source.data, file=source.file, layer=source.file))


def _load(top: _Source, parents: Parents | None = None) -> Document:
    parents = parents or Parents()
    findings = Findings()
    sources: dict[str, str] = {}
    folders: dict[str, Path] = {}
    layers: list[Layer] = []
    seen: list[_Source] = []
    complete = True
    read: _ParsedSource | None = _parse_source(top)
    while read is not None:
        source, parsed = read.source, read.parsed
        sources[source.file] = parsed.text
        if source.base is not None:
            folders[source.file] = source.base
        findings.items.extend(parsed.findings)
        seen.append(source)
        if parsed.root is None:
            complete = False
            break
        layers.append(Layer(source.file, source.file, parsed.root, source.shipped))
        extends = parsed.root.get("extends")
        read = None
        if extends is not None and isinstance(extends.value, str) and extends.value:
            try:
                read = _parent(extends.value, seen, parents)
            except _NoParentError as error:
                complete = False
                findings.add(error.code, str(error), extends.place, path="extends", help=error.help)
        elif extends is not None:
            complete = False  # a parent is meant, though nobody can tell which; the schema says what is wrong
    layers.reverse()
    root = Node({}, Place(top.file, START, top.file))
    for index, layer in enumerate(layers):
        inherited = index < len(layers) - 1
        said = without(layer.root, _NOT_INHERITED) if inherited else layer.root
        root = said if index == 0 else merge(root, said)
    return Document(
        top.file, tuple(layers), root, tuple(findings.items), sources, top.base, folders, complete, top.tree
    )


def _parent(name: str, seen: list[_Source], parents: Parents) -> _ParsedSource:
    """Read the file that `extends: name` means in the last file seen."""
    child = seen[-1]
    path, file = _parent_path(name, child)
    shipped = name.startswith(SHIPPED)
    tree = DISK if shipped or _is_of_package(name) else child.tree
    identity = tree.identity(path)
    if identity in [source.identity for source in seen]:
        circle = [source.file for source in seen] + [file]
        raise _NoParentError("B020", f"`extends` goes in a circle: {' → '.join(circle)}", "remove one `extends`")
    try:
        return parents.read(path, file, identity, shipped, tree)
    except FileNotFoundError:
        near = did_you_mean(path.name, [other for other in tree.names(path.parent) if other.endswith(ENDINGS)])
        message = f"`{name}` does not exist (`extends` is relative to {child.file})"
        raise _NoParentError("B021", message, near or "name a shipped pipeline or a file that exists") from None
    except (OSError, ValueError) as error:
        raise _NoParentError("B022", f"`{name}` cannot be read: {_reason(error)}", None) from None


def _parent_path(name: str, child: _Source) -> tuple[Path, str]:
    """Return the path that `extends: name` means in `child`, and the name that findings show for it."""
    if name.startswith(SHIPPED):
        short = name.removeprefix(SHIPPED)
        path = shipped_pipeline(short)
        if path is None:
            raise _NoParentError("B021", f"there is no shipped pipeline `{name}`", suggest_shipped(short))
        return path, name
    if _is_of_package(name):
        found = late.installed_pipeline(name)
        if found is None:
            meant = did_you_mean(name, late.installed_pipelines())
            advice = meant or f"install the package that brings it: `bub plugins add {name.partition(':')[0]}`"
            raise _NoParentError("B021", f"no installed package brings the pipeline `{name}`", advice)
        return found, str(found)
    rule = f"write `{SHIPPED}NAME`, or a path relative to this file"
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", name):
        raise _NoParentError("B021", f"`extends` does not follow URLs: `{name}`", rule)
    if name.startswith(("/", "~")) or PureWindowsPath(name).drive:
        raise _NoParentError("B021", f"`extends` does not follow absolute paths: `{name}`", rule)
    if name in shipped_pipelines():
        raise _NoParentError("B021", f"`{name}` is not a file", f"did you mean `{SHIPPED}{name}`?")
    # Lines of a file show up in findings, so nothing but pipeline files may be named here.
    if not name.endswith(ENDINGS):
        raise _NoParentError("B021", f"`{name}` is not a pipeline file", f"{rule} that ends in .yaml or .yml")
    if child.base is None:
        raise _NoParentError("B021", f"`{name}` cannot be found: {child.file} lies in no folder", rule)
    path = child.base / name
    if leads_home(path, child.base):
        raise _NoParentError(
            "B021",
            f"`{name}` is one of Bub's own files",
            "leave it out: Bub uses the model of your own file in every folder",
        )
    if not child.tree.identity(path).endswith(ENDINGS):
        raise _NoParentError(
            "B021", f"`{name}` is a link to a file that is not a pipeline file", "name the pipeline file itself"
        )
    folder = os.path.dirname(child.file.removeprefix(child.tree.prefix))  # noqa: PTH120 (a text, not a file)
    return path, child.tree.prefix + os.path.normpath(os.path.join(folder, name))  # noqa: PTH118 (so is this)


def _is_of_package(name: str) -> bool:
    """Return whether `extends: name` means a pipeline of an installed package, as `PACKAGE:NAME`."""
    if name.startswith(SHIPPED) or name.endswith(ENDINGS):
        return False
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]+:[A-Za-z][A-Za-z0-9_.-]*", name) is not None


def suggest_shipped(name: str) -> str:
    """Return what to do about a shipped pipeline that does not exist, named without `bub:`."""
    known = shipped_pipelines()
    meant = did_you_mean(name, known)
    listed = ", ".join(f"`{SHIPPED}{other}`" for other in known)
    return meant.replace("`", f"`{SHIPPED}", 1) if meant else f"shipped are {listed}"


def _reason(error: OSError | ValueError) -> str:
    """Return why a file cannot be read, without its path; a ValueError is a path that no system could have."""
    return explain_os_error(error) if isinstance(error, OSError) else "the path is not valid"


def _display_path(path: Path) -> str:
    """Return a path as people know it: seen from the current folder when it lies below it."""
    if not path.is_absolute():
        return str(path)
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
