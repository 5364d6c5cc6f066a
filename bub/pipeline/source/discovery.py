"""Which pipeline files are meant by the names that a person gives: files, folders, `bub:NAME`, `-`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from bub.base.diagnostics import STDIN, Diagnostic
from bub.base.failures import explain_os_error
from bub.base.resources import shipped_pipeline
from bub.errors import UsageError
from bub.pipeline.source.merge import ENDINGS, SHIPPED, suggest_shipped
from bub.pipeline.source.yaml_reader import MAX_BYTES, parse

UNREADABLE = "B014"

_USUAL_NAMES = ("pipelines.yaml", "pipelines.yml")
"""Who calls a file so means a pipeline, whatever it holds."""

_NOT_OURS = frozenset({"node_modules", "site-packages", "__pycache__"})
_ENVIRONMENT = "pyvenv.cfg"
"""What lies in every virtual environment of Python."""

_KEYS = ("stages", "profiles", "extends")
_AT_LINE_START = r"(?:\A|[\r\n])(?P<quote>[\"']?)(?:{})(?P=quote)[ \t]*:(?=\s|\Z)"
_VERSION_LINE = _AT_LINE_START.format("version")
_KEY_LINE = _AT_LINE_START.format("|".join(_KEYS))
_KEYS_ELSEWHERE = r"(?:[ \t]*+(?:#[^\r\n]*+|---)?+[ \t]*+[\r\n]++)*+[ {]"
"""How a text begins whose mapping is in braces, or is indented as a whole: it has to be read to know its keys."""


class PipelineFile(msgspec.Struct, frozen=True):
    """One file to check: `name` is what it was called, `path` where it lies; what was piped in has `data` instead.

    `shipped`: it was asked for as `bub:NAME`.
    """

    name: str
    path: Path | None
    data: bytes = b""
    shipped: bool = False


class NoPipelineError(UsageError):
    """A folder without a pipeline file."""


class Discovered(msgspec.Struct, frozen=True):
    """The files that were meant, each once, in the order they were named; `findings` tell which cannot be read."""

    files: tuple[PipelineFile, ...]
    findings: tuple[Diagnostic, ...] = ()


def discover(names: Iterable[str], stdin: BinaryIO) -> Discovered:
    """Return the pipeline files among what is named: a folder stands for all in it and below, `-` for `stdin`.

    Raises `UsageError` for a name that nothing has, and `NoPipelineError` for a folder without a pipeline file.
    """
    files: dict[str, PipelineFile] = {}
    findings: dict[str, Diagnostic] = {}
    named = [resolve_file(name) for name in dict.fromkeys(names)]  # before anything is read: is everything there?
    for file in named:
        if file.path is None:
            files.setdefault(STDIN, PipelineFile(STDIN, None, stdin.read(MAX_BYTES + 1)))
            continue
        if not os.path.isdir(file.path):  # noqa: PTH112 (unlike `Path.is_dir`, it never raises)
            files.setdefault(os.path.realpath(file.path), file)
            continue
        below = list(pipelines_below(file.path))
        if not below:
            keys = ", ".join(f"`{key}`" for key in _KEYS)
            raise NoPipelineError(
                f"there is no pipeline file in {file.name}",
                help=f"one is called pipelines.yaml, or has `version` and one of {keys} at the top level",
            )
        for found in below:
            if isinstance(found, Diagnostic):
                findings.setdefault(os.path.realpath(found.file), found)
            else:
                files.setdefault(os.path.realpath(found), PipelineFile(str(found), found))
    unreadable = [finding for identity, finding in findings.items() if identity not in files]
    return Discovered(tuple(files.values()), tuple(unreadable))


def resolve_file(name: str) -> PipelineFile:
    """Return the file or folder that a name means, not read yet. Raises `UsageError` for a name that nothing has."""
    if not name:  # a script's variable that was not set: as a path it would be the current folder
        raise UsageError("the name of a file is empty", help="say `.` for the current folder")
    if name == "-":
        return PipelineFile(STDIN, None)
    if name.startswith(SHIPPED):
        shipped = shipped_pipeline(name.removeprefix(SHIPPED))
        if shipped is None:
            help_ = suggest_shipped(name.removeprefix(SHIPPED))
            raise UsageError(f"there is no shipped pipeline `{name}`", help=help_)
        return PipelineFile(name, shipped, shipped=True)
    path = _tidy(Path(name))
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"{name} does not exist", help="name a pipeline file, or a folder that has some") from None
    except (OSError, ValueError) as error:
        reason = explain_os_error(error) if isinstance(error, OSError) else "no file can have this name"
        raise UsageError(f"{name} cannot be looked at: {reason}", help="name another file") from error
    return PipelineFile(name, path)


def _tidy(path: Path) -> Path:
    """Return the path from the current folder if it leads below it, and without `..`, so that a file has one name."""
    short = Path(os.path.normpath(path)) if ".." in path.parts else path
    if os.path.realpath(short) != os.path.realpath(path):
        return path  # `..` leads out of a folder that is a link
    here = Path.cwd() if short.is_absolute() else None
    return short.relative_to(here) if here is not None and short.is_relative_to(here) else short


def pipelines_below(folder: Path) -> Iterator[Path | Diagnostic]:
    """Yield the pipeline files in a folder and below it, sorted; a finding for each that cannot be read."""
    todo = [folder]
    while todo:
        here = todo.pop()
        try:
            with os.scandir(here) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            yield _unreadable(here, "folder", error)
            continue
        if here is not folder and any(entry.name == _ENVIRONMENT for entry in inside):
            continue
        for entry in inside:
            path = here / entry.name
            # A pipe would wait for somebody to write to it.
            if entry.name.endswith(ENDINGS) and os.path.isfile(path):  # noqa: PTH113 (it never raises)
                yield from inspect_file(path)
        todo += [here / entry.name for entry in reversed(inside) if _is_walked(entry)]


def _is_walked(entry: os.DirEntry[str]) -> bool:
    return not _is_set_apart(entry.name) and entry.is_dir(follow_symlinks=False)


def _is_set_apart(folder: str) -> bool:
    return folder.startswith(".") or folder in _NOT_OURS


def lies_apart(path: Path) -> bool:
    """Return whether a path leads through a folder that is left out where folders are searched, such as `.github`."""
    return any(_is_set_apart(part) for part in path.parent.parts if part != "..")


def inspect_file(path: Path) -> Iterator[Path | Diagnostic]:
    """Yield a file if it is a pipeline; a finding if nobody can tell, since it cannot be read."""
    if leads_astray(path):
        if path.name in _USUAL_NAMES:
            yield _unreadable(path, "file", OSError(None, "it is a link to a file that is not YAML"))
        return
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        yield _unreadable(path, "file", error)
    else:
        if path.name in _USUAL_NAMES or is_pipeline(data):
            yield path


def leads_astray(path: Path) -> bool:
    """Return whether a path links to a file with another ending: findings would show lines of a foreign file."""
    return os.path.islink(path) and not os.path.realpath(path).endswith(ENDINGS)  # noqa: PTH114 (it never raises)


def is_pipeline(data: bytes) -> bool:
    """Return whether a text has the keys of a pipeline at its top level, as far as its lines show when it is broken."""
    text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8", errors="replace")
    text = text.removeprefix("\ufeff")
    if re.search(_VERSION_LINE, text) and re.search(_KEY_LINE, text):
        return True
    if not re.match(_KEYS_ELSEWHERE, text):
        return False
    root = parse(data, file="", layer="").root
    return root is not None and root.get("version") is not None and any(root.get(key) is not None for key in _KEYS)


def _unreadable(path: Path, what: str, error: OSError) -> Diagnostic:
    return Diagnostic(
        UNREADABLE,
        "error",
        f"the {what} cannot be read: {explain_os_error(error)}",
        str(path),
        help="correct it, or name the files to check one by one",
    )
