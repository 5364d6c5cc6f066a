"""Which files the tools may touch, and opening them so that no link leads anywhere else meanwhile."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from bub.locate import FILE_NAME, bub_home
from bub.tools import ToolContext, ToolError

SECRETS_FILE = ".env"
"""Its variables feed the settings, so it holds keys wherever it lies."""

_OF_THE_SYSTEM = ("/proc", "/sys", "/dev")
"""Folders whose files are no files: they show memory, environments and devices, Bub's own among them."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without waiting: a pipe that is put where a file was would be waited for until somebody writes to it.
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

Identity = tuple[int, int]
"""The device and the number of a folder, by which it is known under any name."""


@dataclass(frozen=True, slots=True)
class Place:
    """A path that may be touched: real, so without a link in it, and below the folder that allows it.

    `shown` is how it is told of: from the workspace where it lies in there. `kept` are folders that the way from
    `root` must not lead through.
    """

    path: Path
    root: Path
    shown: str
    kept: frozenset[Identity]

    @contextmanager
    def folder(self) -> Iterator[int]:
        """It as an opened folder, each step of the way opened from the one above; `ToolError` when it is none."""
        with self._told(), self._opened(self.path, make=False) as folder:
            yield folder

    @contextmanager
    def parent(self, *, make: bool = False) -> Iterator[int]:
        """The folder that it lies in, opened; with `make`, made where it is missing."""
        with self._told(), self._opened(self.path.parent, make=make) as folder:
            yield folder

    def open(self, folder: int) -> tuple[BinaryIO, os.stat_result]:
        """The file, opened for reading in its opened folder; `ToolError` when it is not a regular one."""
        with self._told():
            self._check(os.stat(self.path.name, dir_fd=folder, follow_symlinks=False))
            file = os.fdopen(os.open(self.path.name, os.O_RDONLY | _FILE, dir_fd=folder), "rb")
            try:
                found = os.fstat(file.fileno())
                self._check(found)
            except BaseException:
                file.close()
                raise
            return file, found

    def status(self, folder: int) -> os.stat_result | None:
        """What is known of the file, None when there is none; `ToolError` when it cannot be written."""
        with self._told():
            try:
                found = os.stat(self.path.name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                return None
            self._check(found)
            os.close(os.open(self.path.name, os.O_WRONLY | _FILE, dir_fd=folder))
            return found

    def replace(self, folder: int, data: bytes, like: os.stat_result | None) -> None:
        """Put `data` in the place of the file: at any time there is the old text or the new one, never a half.

        The mode, and where that is allowed the owner, are those of `like`. Unlike `bub.rewrite` it works in the
        folder that was opened, whatever its path leads to by now.
        """
        fresh = f".bub-{os.urandom(8).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE
        with self._told():
            try:
                with os.fdopen(os.open(fresh, flags, 0o666 if like is None else 0o600, dir_fd=folder), "wb") as file:
                    file.write(data)
                    file.flush()
                    if like is not None:
                        with suppress(OSError):
                            os.fchown(file.fileno(), like.st_uid, like.st_gid)
                        os.fchmod(file.fileno(), stat.S_IMODE(like.st_mode))
                    os.fsync(file.fileno())
                os.replace(fresh, self.path.name, src_dir_fd=folder, dst_dir_fd=folder)
            finally:
                with suppress(OSError):
                    os.unlink(fresh, dir_fd=folder)
            with suppress(OSError):
                os.fsync(folder)

    @contextmanager
    def _opened(self, folder: Path, *, make: bool) -> Iterator[int]:
        # A single file that is listed is its own root, and its folder is no part of what was allowed.
        root = self.root if folder.is_relative_to(self.root) else folder
        here = os.open(root, _FOLDER)
        try:
            self._check_kept(here)
            for part in folder.relative_to(root).parts:
                below = self._step(here, part, make=make)
                os.close(here)
                here = below
                self._check_kept(here)
            yield here
        finally:
            os.close(here)

    @staticmethod
    def _step(here: int, part: str, *, make: bool) -> int:
        try:
            return os.open(part, _FOLDER, dir_fd=here)
        except FileNotFoundError:
            if not make:
                raise
        with suppress(FileExistsError):
            os.mkdir(part, dir_fd=here)
        return os.open(part, _FOLDER, dir_fd=here)

    def _check_kept(self, folder: int) -> None:
        if identity(os.fstat(folder)) in self.kept:
            raise ToolError(
                f"{self.shown} lies in a folder of Bub's own or of the system, which can hold keys",
                help="a person can list it in the settings, under `files.folders`",
                kind="denied",
            )

    def _check(self, found: os.stat_result) -> None:
        if stat.S_ISDIR(found.st_mode):
            raise ToolError(f"{self.shown} is a folder", help="fs.list shows what is in it")
        if not stat.S_ISREG(found.st_mode):
            raise ToolError(f"{self.shown} is not a regular file but a pipe, a device or the like")

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise ToolError(f"{self.shown} does not exist", help="fs.list shows what there is") from None
        except OSError as error:
            reason = error.strerror or str(error)
            raise ToolError(f"{self.shown} cannot be used: {reason[:1].lower()}{reason[1:]}") from None


@dataclass(frozen=True, slots=True)
class Reach:
    """The folders that the tools may work in: the workspace, and what the setting `files.folders` lists."""

    workspace: Path
    listed: tuple[Path, ...]
    home: Path

    @classmethod
    def of(cls, context: ToolContext) -> Reach:
        """What a call may reach."""
        workspace = Path(os.path.realpath(context.workspace))
        said: Mapping[str, Any] = context.settings.get("files") or {}
        listed = (Path(os.path.realpath(workspace / _expanded(str(name)))) for name in said.get("folders") or ())
        return cls(workspace, tuple(listed), Path(os.path.realpath(bub_home(os.environ))))

    def place(self, given: str, *, writing: bool = False) -> Place:
        """The place that a path leads to, which need not exist; `ToolError` (`denied`) when it is out of reach.

        Links are followed before anything is judged, and a relative path begins in the workspace (BEHAVIOURS A27).
        """
        if not given or "\0" in given:
            raise ToolError(f"{given!r} is not a path", kind="invalid_input")
        try:
            path = Path(os.path.realpath(self.workspace / _expanded(given)))
        except OSError as error:  # what was a link a moment ago is none any more
            raise ToolError(f"{given} cannot be used: {error.strerror}") from None
        roots = [folder for folder in (self.workspace, *self.listed) if path.is_relative_to(folder)]
        if not roots:
            raise ToolError(
                f"{given} is outside of the workspace",
                help="a person can list more folders in the settings, under `files.folders`",
                kind="denied",
            )
        if path not in self.listed:
            self._check_name(given, path, writing=writing)
        root = max(roots, key=lambda folder: len(folder.parts))
        shown = path.relative_to(self.workspace) if path.is_relative_to(self.workspace) else path
        return Place(path, root, str(shown), self._kept_from(root))

    def _check_name(self, given: str, path: Path, *, writing: bool) -> None:
        # Compared as a disk does that takes capitals for small letters, as that of a Mac.
        name = path.name.casefold()
        if name == SECRETS_FILE:
            raise ToolError(
                f"{given} holds keys, which are not for the agent",
                help="a person can list this very file in the settings, under `files.folders`",
                kind="denied",
            )
        if writing and name == FILE_NAME and path.parent == self.workspace:
            raise ToolError(
                f"{given} says what the agent may do, so the agent does not write it",
                help="tell the person what to change",
                kind="denied",
            )

    def _kept_from(self, root: Path) -> frozenset[Identity]:
        """Folders that may be entered only by somebody who begins inside, or whose settings list that very folder."""
        kept = set()
        for folder in (self.home, *map(Path, _OF_THE_SYSTEM)):
            with suppress(OSError):
                kept.add(identity(folder.stat()))
        if root in self.listed:
            with suppress(OSError):
                kept.discard(identity((root if root.is_dir() else root.parent).stat()))
        return frozenset(kept)


def identity(found: os.stat_result) -> Identity:
    """By what a folder is known under any name."""
    return found.st_dev, found.st_ino


def _expanded(path: str) -> str:
    return os.path.expanduser(path) if path.startswith("~/") else path  # noqa: PTH111 (raises nothing)
