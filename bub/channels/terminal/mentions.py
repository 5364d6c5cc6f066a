r"""Files that a person names while they write: `@path` hands a file over, `\@` is just an at sign."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bub.channels.attachments import TEXT, mime_type_of

_NAME = r'"[^"\n]+"|(?:\\.|[^\s"\\])+'
_MENTION = re.compile(rf"(?<!\S)(\\?)@({_NAME})")
_BEGUN = re.compile(r'(?<!\S)@("[^"\n]*|(?:\\.|[^\s"\\])*)$')
_BEHIND = ".,;:!?)]}'"
"""What ends a sentence and is no part of a name, unless there is such a file."""

_MOST_OFFERED = 100
_MOST_SEEN = 5000
_SECONDS = 0.3
_SKIPPED = ("node_modules", "__pycache__")


@dataclass(frozen=True, slots=True)
class Typed:
    """What a person wrote: the `text` to send, the `files` to hand over with it, and names that are no files."""

    text: str
    files: Sequence[str] = ()
    unknown: Sequence[str] = ()


def read_mentions(line: str, workspace: Path) -> Typed:
    """Find the files that a line names. A folder, and what only looks like a path, is just named."""
    files: dict[str, None] = {}
    unknown: dict[str, None] = {}

    def read(match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        given = _unquote(match[2])
        for name in (given, given.rstrip(_BEHIND)):
            if name and locate(name, workspace).is_file():
                files[name] = None
                return match[0]
        given = given.rstrip(_BEHIND)
        if "/" in given and not os.path.exists(locate(given, workspace)):  # noqa: PTH110 (raises nothing)
            unknown[given] = None
        return match[0]

    text = _MENTION.sub(read, line)
    return Typed(text, tuple(files), tuple(unknown))


def names_a_file(text: str, workspace: Path) -> bool:
    """Whether a text that nobody typed would hand over a file, or lose a backslash."""
    typed = read_mentions(text, workspace)
    return bool(typed.files) or typed.text != text


def locate(name: str, workspace: Path) -> Path:
    """The place that a name leads to: from the workspace, or from the person's home."""
    return workspace / os.path.expanduser(name)  # noqa: PTH111 (raises nothing)


def mention_of(pasted: str, workspace: Path) -> str | None:
    """How an image or a PDF is named whose path was pasted, as terminals do if a file is dropped on them."""
    path = _pasted_path(pasted.strip())
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            kind = mime_type_of(file.read(1024))
    except (OSError, ValueError):
        return None
    if kind in (None, TEXT):
        return None
    real, root = os.path.realpath(path), os.path.realpath(workspace)
    return f"@{_quote(os.path.relpath(real, root) if real.startswith(root + os.sep) else str(path))}"


def complete_mention(before: str, workspace: Path) -> Iterator[tuple[str, int]]:
    """How a mention before the cursor may go on: what takes the place of the last so many letters."""
    begun = _BEGUN.search(before)
    if begun is None:
        return
    written = _unquote(begun[1] + '"' if begun[1].startswith('"') else begun[1])
    for name in _offer(written, workspace):
        yield f"@{_quote(name)}", len(begun[0])


def _offer(written: str, workspace: Path) -> Iterator[str]:
    folder, slash, begun = written.rpartition("/")
    offered = []
    for entry in _entries(locate(folder + slash, workspace)):
        if entry.name.startswith(begun) and (begun.startswith(".") or not entry.name.startswith(".")):
            offered.append(f"{folder}{slash}{entry.name}{'/' if entry.is_dir() else ''}")
    yield from offered[:_MOST_OFFERED]
    if not slash and begun:
        yield from _find_below(begun, workspace, _MOST_OFFERED - len(offered))


def _find_below(begun: str, workspace: Path, most: int) -> Iterator[str]:
    """Files further down whose name begins so; a large tree is looked through in part."""
    until, seen, found = time.monotonic() + _SECONDS, 0, 0
    for top, folders, files in os.walk(workspace):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        seen += len(files)
        if found >= most or seen > _MOST_SEEN or time.monotonic() > until:
            return
        if top == str(workspace):
            continue
        for name in sorted(files):
            if name.startswith(begun) and found < most:
                found += 1
                yield os.path.relpath(f"{top}/{name}", workspace)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (OSError, ValueError):
        return []


def _pasted_path(text: str) -> Path | None:
    if not text or "\n" in text:
        return None
    if text.startswith("file://"):
        return Path(unquote(urlsplit(text).path))
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    # Some terminals quote what is dropped on them and others do not.
    for name in ([words[0]] if len(words) == 1 else []) + [text]:
        path = Path(os.path.expanduser(name))  # noqa: PTH111 (raises nothing)
        if path.is_absolute() and path.is_file():
            return path
    return None


def _quote(name: str) -> str:
    if not re.search(r'[\s"\\]', name):
        return name
    if '"' in name or "\\" in name:
        return re.sub(r'([\s"\\])', r"\\\1", name)
    return f'"{name}"' if not name.endswith("/") else f'"{name}'


def _unquote(name: str) -> str:
    if name.startswith('"'):
        return name.strip('"')
    return re.sub(r"\\(.)", r"\1", name)
