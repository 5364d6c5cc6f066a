"""The files that Bub makes in its own folder: which there are, by their names, and which of them are there."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bub.base.failures import explain_os_error
from bub.errors import BubError


class OwnFiles(msgspec.Struct, frozen=True):
    """Files of one purpose, by their paths below Bub's own folder.

    In a path, `HASH` is sixteen letters, `N` a number and `*` anything; one that ends with `/` is a folder as a whole.
    `is_common`: other programs use such names, too.
    """

    what: str
    paths: tuple[str, ...]
    is_common: bool = False


TAPES = OwnFiles(
    "what was said and done in each session",
    ("tapes/tapes.db", "tapes/tapes.db-wal", "tapes/tapes.db-shm", "tapes/*.jsonl", "tapes/archive/*.jsonl"),
)

OWN_FILES = (
    OwnFiles("your pipeline file", ("pipelines.yaml", "pipelines.yaml.bak", "pipeline.schema.json"), is_common=True),
    OwnFiles("your keys", (".env",), is_common=True),
    OwnFiles("the folders that you trust", ("trusted.json", "trusted.json.lock", "trusted.json.damaged")),
    OwnFiles("the commands of plugins, for completion", ("commands.json",)),
    TAPES,
    OwnFiles(
        "messages and replies on their way",
        (
            "tapes/inbox.db",
            "tapes/inbox.db-wal",
            "tapes/inbox.db-shm",
            "tapes/inbox-HASH.lock",
            "tapes/inbox-HASH.copy",
        ),
    ),
    OwnFiles(
        "the packages that you added",
        ("plugins/added.json", "plugins/lock", "plugins/wheels/"),
        is_common=True,
    ),
    OwnFiles("what you typed in bub chat", ("history/HASH",)),
    OwnFiles("a sign that a gateway, bub chat, bub studio or bub mcp serve runs", ("chats.lock",)),
    OwnFiles("the address of a gateway's page, with its token", ("pages/*",), is_common=True),
    OwnFiles("the log", ("logs/bub.log", "logs/bub.log.N")),
    OwnFiles(
        "the small local model", ("local/lock", "local/engine-*/", "local/weights/", "local/new-*/"), is_common=True
    ),
    OwnFiles("files that were being written", (".bub-N-HASH", ".bub-*.yaml")),
)
"""All files that Bub makes in its own folder; plugins may make others."""

LOCKS = ("tapes/inbox-HASH.lock", "local/lock", "chats.lock")
"""Files that stay locked as long as a gateway, a chat, a studio, an MCP server or an installation of a model runs."""

_MEANINGS = {"HASH": "[0-9a-f]{16}", "N": "[0-9]{1,10}", r"\*": "[^/]*"}
_PLACEHOLDER = r"HASH|\bN\b|\\\*"


class FoundFile(msgspec.Struct, frozen=True):
    """A file that is there, or a folder that is Bub's as a whole (`is_folder`), with its size in bytes."""

    path: str
    size: int
    is_folder: bool
    of: OwnFiles


class Found(msgspec.Struct, frozen=True):
    """What is in Bub's own folder: its files, and the names of `others`: what Bub did not make, and links."""

    files: tuple[FoundFile, ...]
    others: tuple[str, ...]


def find_own_files(home: Path) -> Found:
    """Look through Bub's own folder; links are not followed. Raises BubError if it cannot be read."""
    files: list[FoundFile] = []
    others: list[str] = []
    try:
        _look(home, "", files, others)
    except FileNotFoundError:
        pass
    except OSError as error:
        problem = f"{error.filename} cannot be read: {explain_os_error(error)}"
        raise BubError(problem, help="see that it is a folder, and yours") from error
    return Found(tuple(sorted(files, key=lambda file: (OWN_FILES.index(file.of), file.path))), tuple(others))


def own_folders() -> list[str]:
    """Return the folders that Bub makes in its own, the innermost first."""
    folders = {parent.as_posix() for kind in OWN_FILES for path in kind.paths for parent in Path(path).parents}
    return sorted(folders - {"."}, key=lambda folder: -folder.count("/"))


def is_path_of(path: str, pattern: str) -> bool:
    """Return whether a path is one that a path of `OwnFiles` stands for."""
    expression = re.sub(_PLACEHOLDER, lambda found: _MEANINGS[found[0]], re.escape(pattern.removesuffix("/")))
    return re.fullmatch(expression, path) is not None


def _look(home: Path, below: str, files: list[FoundFile], others: list[str]) -> None:
    with os.scandir(home / below) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        path = f"{below}{entry.name}"
        is_folder = entry.is_dir(follow_symlinks=False)
        kind = _kind_of(f"{path}/" if is_folder else path)
        if kind is not None and (is_folder or entry.is_file(follow_symlinks=False)):
            size = sum(_sizes(home / path)) if is_folder else entry.stat(follow_symlinks=False).st_size
            files.append(FoundFile(path, size, is_folder, kind))
        elif is_folder and path in own_folders():
            _look(home, f"{path}/", files, others)
        else:
            others.append(f"{path}/" if is_folder else path)


def _kind_of(path: str) -> OwnFiles | None:
    for kind in OWN_FILES:
        for pattern in kind.paths:
            if pattern.endswith("/") == path.endswith("/") and is_path_of(path.removesuffix("/"), pattern):
                return kind
    return None


def _sizes(folder: Path) -> Iterator[int]:
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                found = os.lstat(os.path.join(place, name))  # noqa: PTH118 (there are thousands)
            except OSError:
                continue
            if stat.S_ISREG(found.st_mode):
                yield found.st_size
