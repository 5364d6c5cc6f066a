"""Removing what Bub left in its own folder: just its own files, by their names, and nothing through a link."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from bub.base.failures import explain_os_error
from bub.base.private import lock_file
from bub.errors import BubError
from bub.setup.own_files import LOCKS, OWN_FILES, TAPES, FoundFile, OwnFiles, find_own_files, is_path_of, own_folders

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


class Removal(msgspec.Struct, frozen=True):
    """What is to be removed of Bub's own folder, and what stays: Bub's own `kept` files, and the names of `others`."""

    files: tuple[FoundFile, ...]
    kept: tuple[FoundFile, ...]
    others: tuple[str, ...]


def plan_removal(home: Path, *, keep_tapes: bool) -> Removal:
    """Look for what Bub left; raises BubError if the folder cannot be read.

    In the person's home folder, or above it, files with names that other programs use, too, are kept.
    """
    found, shared = find_own_files(home), is_shared(home)
    files: list[FoundFile] = []
    kept: list[FoundFile] = []
    for file in found.files:
        stays = (keep_tapes and file.of == TAPES) or (shared and file.of.is_common)
        (kept if stays else files).append(file)
    return Removal(tuple(files), tuple(kept), found.others)


def is_shared(home: Path) -> bool:
    """Return whether a folder is the person's home folder, or has it below it."""
    try:
        return Path(os.path.realpath(Path.home())).is_relative_to(os.path.realpath(home))
    except RuntimeError:  # there is no home folder
        return False


@contextmanager
def hold_locks(home: Path, files: Iterable[FoundFile]) -> Iterator[None]:
    """Keep gateways, chats, studios and MCP servers from starting. Raises BubError if one runs, or installs a model."""
    with ExitStack() as held:
        for file in files:
            if any(is_path_of(file.path, lock) for lock in LOCKS):
                with suppress(OSError):
                    descriptor = os.open(home / file.path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
                    held.callback(os.close, descriptor)
                    _lock(descriptor, home / file.path)
        yield


def _lock(descriptor: int, path: Path) -> None:
    try:
        lock_file(descriptor, wait=False)
    except BlockingIOError:
        said = os.read(descriptor, 32)
        holder = f"process {said.decode()}" if said.isdigit() else "another process"
        what = "a chat, a gateway, bub studio, an MCP server, or an installation of the local model"
        raise BubError(
            f"{holder} works in {path.parent}: {what}",
            help="end it, then try again; nothing was removed",
        ) from None


def remove_files(home: Path, files: Sequence[FoundFile]) -> list[str]:
    """Remove files of Bub's own folder, then the folders that are empty; return what could not be removed, and why.

    A Ctrl-C meanwhile says in a note how far it came.
    """
    failures, removed = [], 0
    try:
        for file in files:
            try:
                _remove(home, file)
            except FileNotFoundError:
                pass  # somebody else was quicker
            except OSError as error:
                failures.append(f"{home / file.path}: {explain_os_error(error)}")
                continue
            removed += 1
        if not is_shared(home):
            _remove_folders(home)
    except KeyboardInterrupt as stop:
        stop.add_note(f"{removed} of {len(files)} are removed; `bub uninstall` again removes the rest")
        raise
    return failures


def _remove(home: Path, file: FoundFile) -> None:
    with _opened(home, file.path) as (folder, name):
        if file.is_folder:
            shutil.rmtree(name, dir_fd=folder)
        elif stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)


def _remove_folders(home: Path) -> None:
    """Remove the folders that Bub made, if nothing is in them any more."""
    for path in own_folders():
        with suppress(OSError), _opened(home, path) as (folder, name):
            os.rmdir(name, dir_fd=folder)
    with suppress(OSError):
        home.rmdir()


@contextmanager
def _opened(home: Path, path: str) -> Iterator[tuple[int, str]]:
    """Give the open folder of a path below `home`, and its name there; a folder that became a link is an OSError."""
    *parents, name = path.split("/")
    with ExitStack() as opened:
        folder = os.open(home, os.O_RDONLY)
        opened.callback(os.close, folder)
        for parent in parents:
            folder = os.open(parent, _FOLDER, dir_fd=folder)
            opened.callback(os.close, folder)
        yield folder, name


def by_kind(files: Iterable[FoundFile]) -> list[tuple[OwnFiles, list[FoundFile]]]:
    """Return files by what they are for."""
    listed = list(files)
    sorted_out = [(kind, [file for file in listed if file.of == kind]) for kind in OWN_FILES]
    return [(kind, found) for kind, found in sorted_out if found]
