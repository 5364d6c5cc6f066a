"""Parent, file, profile: following `extends`, and laying one document over another."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PureWindowsPath
from typing import Any, NamedTuple, Protocol

from bub.diagnostics import START, Diagnostic, Findings, Place, did_you_mean, sure_repair
from bub.errors import UsageError
from bub.pipeline.document import Node
from bub.pipeline.yaml_reader import MAX_BYTES, Parsed, parse
from bub.resources import shipped_pipeline, shipped_pipelines

SHIPPED = "bub:"
"""What the name of a shipped pipeline begins with in `extends`."""

DEFAULT_PROFILE = "default"

_OVERLAY = ("stages", "hooks", "settings")
"""The keys of a profile that are laid over the pipeline itself."""

_MOST_LISTED = 100
"""Among how many profiles a misspelt one is looked for."""

_PIPELINE_FILE = (".yaml", ".yml")
"""What the name of a file that `extends` may name ends with."""

_NOT_INHERITED = ("extends", "tests")
"""The keys that a file does not take over from its parent: what holds of the parent need not hold of the child."""

_OWN = ("extends", "description")
"""The keys of a profile that the profiles built on it do not take over."""


class Tree(Protocol):
    """Where a pipeline file and its parents are read: the disk, or what a folder held at another time.

    Paths are those of the disk, whatever a tree reads in their place. `prefix` stands before the names of its files
    where people read them.
    """

    @property
    def prefix(self) -> str: ...

    def read(self, path: Path) -> bytes:
        """The bytes of a regular file, and of a huge one just enough to see that it is too large.

        Raises OSError or ValueError, and FileNotFoundError where nothing has that name.
        """

    def identity(self, path: Path) -> str:
        """What two names of one file have in common."""

    def names(self, folder: Path) -> Iterable[str]:
        """The names of what lies in a folder; none where it cannot be read."""


@dataclass(frozen=True, slots=True)
class Disk:
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


@dataclass(frozen=True, slots=True)
class Layer:
    """What one file, or one profile in one file, says: `name` is as in `Place.layer`, `file` as people know it.

    `shipped`: it was asked for as `bub:NAME`, so its text is Bub's own.
    """

    name: str
    file: str
    root: Node
    shipped: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """A pipeline file with everything it extends.

    `layers` begin with the furthest parent; `root` is all of them merged, an empty mapping when nothing could be
    read. `sources` holds the text of each file by its name, broken ones included, `folders` where each file lies.
    `complete` is false when a part of the document could not be read, so that what is missing may lie there.
    """

    file: str
    layers: tuple[Layer, ...]
    root: Node
    findings: tuple[Diagnostic, ...]
    sources: Mapping[str, str]
    base: Path | None
    folders: Mapping[str, Path]
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Effective:
    """A document as one profile sees it.

    `chain` names the profile behind all that it extends; `layers` are the document's, followed by what each profile
    of the chain says in each file. `allowlist` is the `plugins` list that counts, `profile_node` the whole profile.
    """

    root: Node
    layers: tuple[Layer, ...]
    chain: tuple[str, ...]
    findings: tuple[Diagnostic, ...]
    allowlist: Node | None
    profile_node: Node | None


def merge(low: Node, high: Node) -> Node:
    """Lay `high` over `low`: mappings merge by key, everything else replaces.

    The keys of `low` come first, in their order. `origins` collects every place that had a say, weakest first.
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
    return _load(_opened(path, tree.prefix + (display or _shown(path)), tree=tree), parents)


def load_text(
    text: str | bytes, *, file: str = "pipelines.yaml", base: Path | None = None, parents: Parents | None = None
) -> Document:
    """Read a pipeline from a text, as if it stood in `file` in the folder `base`; `parents` as in `load_document`."""
    identity = DISK.identity(base / Path(file).name) if base is not None else file
    data = text if isinstance(text, bytes) else text.encode("utf-8", errors="surrogatepass")
    return _load(_Source(file, data, base, identity), parents)


def load_shipped(name: str) -> Document:
    """Read a shipped pipeline by its name without `bub:`; raises `UsageError` for a name that is not shipped."""
    path = shipped_pipeline(name)
    if path is None:
        raise UsageError(f"there is no shipped pipeline `{SHIPPED}{name}`", help=_shipped_help(name))
    return _load(_opened(path, f"{SHIPPED}{name}", shipped=True))


def profile_chain(document: Document, profile: str) -> tuple[str, ...]:
    """The profile with all that it extends, base first; what is unknown or goes in a circle is left out."""
    return _follow_profiles(document, profile, Findings())


def effective(document: Document, profile: str) -> Effective:
    """The document as `profile` sees it: the profile's stages, hooks and settings laid over the pipeline's.

    An unknown profile is a finding. `default` always exists, with nothing in it where nobody wrote it.
    """
    findings = Findings()
    chain = _follow_profiles(document, profile, findings)
    root, layers = document.root, list(document.layers)
    merged: Node | None = None
    for name in chain:
        node = _profile(document.root, name)
        if node is None:
            continue
        merged = node if merged is None else merge(without(merged, _OWN), node)
        label = f"profile {name}"
        # The document stays where it is: only what a profile says has the profile's place.
        root = replace(root, value=merge(root, _relabel(_overlay(node), label)).value)
        for layer in document.layers:
            written = _profile(layer.root, name)
            if written is not None:
                layers.append(Layer(label, layer.file, _relabel(_overlay(written), label)))
    allowlist = merged.get("plugins") if merged is not None else None
    return Effective(root, tuple(layers), chain, tuple(findings.items), allowlist, merged)


def without(node: Node, names: Iterable[str]) -> Node:
    """A mapping without the keys in `names`."""
    left_out = frozenset(names)
    return replace(node, value={name: child for name, child in node.items() if name not in left_out})


class _Source(NamedTuple):
    """A file that was opened: `identity` tells whether two names mean one file."""

    file: str
    data: bytes
    base: Path | None
    identity: str
    shipped: bool = False
    tree: Tree = DISK


class _Read(NamedTuple):
    """A file that was opened and read."""

    source: _Source
    parsed: Parsed


class Parents:
    """The parents that were read in one run, by their name and file: many pipelines extend the same one."""

    def __init__(self) -> None:
        self._read: dict[tuple[str, str], _Read] = {}

    def read(self, path: Path, file: str, identity: str, shipped: bool, tree: Tree) -> _Read:
        """The parent at `path`, which is `file` in what is said about it."""
        key = (file, identity)
        if key not in self._read:
            self._read[key] = _parsed(_Source(file, tree.read(path), path.parent, identity, shipped, tree))
        return self._read[key]


class _NoParentError(Exception):
    """A parent that cannot be had: the code, message and help of the finding."""

    def __init__(self, code: str, message: str, help: str | None) -> None:  # noqa: A002 (the reader's word)
        super().__init__(message)
        self.code = code
        self.help = help


def _opened(path: Path, file: str, *, shipped: bool = False, tree: Tree = DISK) -> _Source:
    """Open the file at the top, which is `file` in what is said about it."""
    try:
        data = tree.read(path)
    except FileNotFoundError:
        raise UsageError(
            f"{file} does not exist", help="name a pipeline file, or leave it out for the shipped default"
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {_reason(error)}", help="name a readable pipeline file") from None
    return _Source(file, data, path.parent, tree.identity(path), shipped, tree)


def _parsed(source: _Source) -> _Read:
    return _Read(source, parse(source.data, file=source.file, layer=source.file))


def _load(top: _Source, parents: Parents | None = None) -> Document:
    parents = parents or Parents()
    findings = Findings()
    sources: dict[str, str] = {}
    folders: dict[str, Path] = {}
    layers: list[Layer] = []
    seen: list[_Source] = []
    complete = True
    read: _Read | None = _parsed(top)
    while read is not None:
        source, parsed = read
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
    return Document(top.file, tuple(layers), root, tuple(findings.items), sources, top.base, folders, complete)


def _parent(name: str, seen: list[_Source], parents: Parents) -> _Read:
    """Read the file that `extends: name` means in the last file seen."""
    child = seen[-1]
    path, file = _parent_path(name, child)
    shipped = name.startswith(SHIPPED)
    tree = DISK if shipped else child.tree
    identity = tree.identity(path)
    if identity in [source.identity for source in seen]:
        circle = [source.file for source in seen] + [file]
        raise _NoParentError("B020", f"`extends` goes in a circle: {' → '.join(circle)}", "remove one `extends`")
    try:
        return parents.read(path, file, identity, shipped, tree)
    except FileNotFoundError:
        near = did_you_mean(path.name, [other for other in tree.names(path.parent) if other.endswith(_PIPELINE_FILE)])
        message = f"`{name}` does not exist (`extends` is relative to {child.file})"
        raise _NoParentError("B021", message, near or "name a shipped pipeline or a file that exists") from None
    except (OSError, ValueError) as error:
        raise _NoParentError("B022", f"`{name}` cannot be read: {_reason(error)}", None) from None


def _parent_path(name: str, child: _Source) -> tuple[Path, str]:
    """The path that `extends: name` means in `child`, and the name that findings show for it."""
    if name.startswith(SHIPPED):
        short = name.removeprefix(SHIPPED)
        path = shipped_pipeline(short)
        if path is None:
            raise _NoParentError("B021", f"there is no shipped pipeline `{name}`", _shipped_help(short))
        return path, name
    rule = f"write `{SHIPPED}NAME`, or a path relative to this file"
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", name):
        raise _NoParentError("B021", f"`extends` does not follow URLs: `{name}`", rule)
    if name.startswith(("/", "~")) or PureWindowsPath(name).drive:
        raise _NoParentError("B021", f"`extends` does not follow absolute paths: `{name}`", rule)
    if name in shipped_pipelines():
        raise _NoParentError("B021", f"`{name}` is not a file", f"did you mean `{SHIPPED}{name}`?")
    # Lines of a file show up in findings, so nothing but pipeline files may be named here.
    if not name.endswith(_PIPELINE_FILE):
        raise _NoParentError("B021", f"`{name}` is not a pipeline file", f"{rule} that ends in .yaml or .yml")
    if child.base is None:
        raise _NoParentError("B021", f"`{name}` cannot be found: {child.file} lies in no folder", rule)
    path = child.base / name
    if not child.tree.identity(path).endswith(_PIPELINE_FILE):
        raise _NoParentError(
            "B021", f"`{name}` is a link to a file that is not a pipeline file", "name the pipeline file itself"
        )
    folder = os.path.dirname(child.file.removeprefix(child.tree.prefix))  # noqa: PTH120 (a text, not a file)
    return path, child.tree.prefix + os.path.normpath(os.path.join(folder, name))  # noqa: PTH118 (so is this)


def _shipped_help(name: str) -> str:
    known = shipped_pipelines()
    meant = did_you_mean(name, known)
    listed = ", ".join(f"`{SHIPPED}{other}`" for other in known)
    return meant.replace("`", f"`{SHIPPED}", 1) if meant else f"shipped are {listed}"


def _reason(error: OSError | ValueError) -> str:
    """Why a file cannot be read, without its path; a ValueError is a path that no system could have."""
    if not isinstance(error, OSError):
        return "the path is not valid"
    reason = error.strerror or str(error)
    return reason[:1].lower() + reason[1:]


def _shown(path: Path) -> str:
    """A path as people know it: seen from the current folder when it lies below it."""
    if not path.is_absolute():
        return str(path)
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _profile(root: Node, name: str) -> Node | None:
    node = root.get("profiles", name)
    return node if node is not None and node.is_mapping else None


def _follow_profiles(document: Document, profile: str, findings: Findings) -> tuple[str, ...]:
    profiles = document.root.get("profiles")
    known = [name for name, _ in profiles.items()] if profiles is not None else []
    if profile not in known and profile != DEFAULT_PROFILE:
        place = Place(document.file)
        if profiles is not None and profiles.where.file == document.file:
            place = profiles.where
        findings.add(
            "B162", f"there is no profile `{profile}`", place, profile=profile, help=_known_help(profile, known)
        )
        return ()
    chain = [profile]
    while True:
        parent = document.root.get("profiles", chain[-1], "extends")
        if parent is None or not isinstance(parent.value, str):
            break
        name, path = parent.value, f"profiles.{chain[-1]}.extends"
        if name in chain:
            # Told alike wherever it is entered: from the profile that is written first.
            circle = chain[chain.index(name) :]
            at = circle.index(min(circle, key=known.index))
            circle = [*circle[at:], *circle[: at + 1]]
            closing = document.root.get("profiles", circle[-2], "extends")
            findings.add(
                "B163",
                f"profiles extend each other in a circle: {' → '.join(circle)}",
                (closing or parent).place,
                path=f"profiles.{circle[-2]}.extends",
                help="remove one `extends`",
            )
            break
        if name not in known and name != DEFAULT_PROFILE:
            repair = sure_repair(name, {*known, DEFAULT_PROFILE} - {chain[-1]}) if len(known) <= _MOST_LISTED else None
            message = f"there is no profile `{name}`"
            findings.add("B162", message, parent.place, path=path, help=_known_help(name, known), fix=repair)
            break
        chain.append(name)
    return tuple(reversed(chain))


def _known_help(name: str, known: Iterable[str]) -> str:
    names = sorted({*known, DEFAULT_PROFILE})
    if len(names) > _MOST_LISTED:
        return f"name one of the {len(names)} profiles"
    return did_you_mean(name, names) or "profiles are " + ", ".join(f"`{other}`" for other in names)


def _overlay(profile: Node) -> Node:
    """The part of a profile that is laid over the pipeline; parts that are no mappings are the schema's to report."""
    parts = {name: child for name, child in profile.items() if name in _OVERLAY and child.is_mapping}
    return replace(profile, value=parts)


def _relabel(node: Node, label: str) -> Node:
    """The same values, said to come from the layer `label`."""

    def placed(place: Place) -> Place:
        return Place(place.file, place.range, label)

    value: Any = node.value
    if isinstance(value, dict):
        value = {name: _relabel(child, label) for name, child in value.items()}
    elif isinstance(value, tuple):
        value = tuple(_relabel(child, label) for child in value)
    return Node(
        value,
        placed(node.place),
        placed(node.key) if node.key is not None else None,
        tuple(placed(origin) for origin in node.origins),
        node.quoted,
    )
