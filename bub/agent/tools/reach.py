"""Which files an agent may touch, and opening them so that no link leads anywhere else meanwhile."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from bub.agent.tools.search import holds_keys
from bub.base.failures import explain_os_error
from bub.base.locate import DOTENV, FILE_NAME, bub_home, is_lock
from bub.tools import ToolContext, ToolError

_OF_THE_SYSTEM = ("/proc", "/sys", "/dev")
"""Folders whose files are no files: they show memory, environments and devices, Bub's own among them."""

_LONGEST_PATH = 4095
"""In bytes. Opened step by step a longer one could be reached, but by no other program."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without waiting: a pipe that is put where a file was would be waited for until somebody writes to it.
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

Identity = tuple[int, int]
"""The device and the number of a file or folder, by which it is known under any name."""


class AllowedPath(msgspec.Struct, frozen=True):
    """A path that may be touched: real, so without a link in it, and below the folder that allows it.

    `shown` is its name for people and models: from the workspace on, if it is in there. `kept` are folders that the
    way from `root` must not lead through, and files that it must not lead to.
    """

    path: Path
    root: Path
    shown: str
    kept: frozenset[Identity]

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder now."""
        return os.path.isdir(self.path)  # noqa: PTH112 (raises nothing)

    @contextmanager
    def folder(self) -> Iterator[int]:
        """It as an opened folder, each step of the way opened from the one above; `ToolError` when it is none."""
        with self._explain_failure(), self._open_folder(self.path, make=False) as folder:
            yield folder

    @contextmanager
    def parent(self, *, make: bool = False) -> Iterator[int]:
        """The folder that it lies in, opened; with `make`, made where it is missing."""
        with self._explain_failure(), self._open_folder(self.path.parent, make=make) as folder:
            yield folder

    def open(self, folder: int) -> tuple[BinaryIO, os.stat_result]:
        """Open the file for reading in its opened folder; `ToolError` if it is not a regular one."""
        with self._explain_failure():
            self._check(os.stat(self.path.name, dir_fd=folder, follow_symlinks=False))
            file = os.fdopen(os.open(self.path.name, os.O_RDONLY | _FILE, dir_fd=folder), "rb")
            try:
                found = os.fstat(file.fileno())
                self._check(found)
            except BaseException:  # whoever asked never gets it, so nobody else closes it
                file.close()
                raise
            return file, found

    def status(self, folder: int) -> os.stat_result | None:
        """Return what is known of the file, None if there is none; `ToolError` if it cannot be written."""
        with self._explain_failure():
            try:
                found = os.stat(self.path.name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                return None
            self._check(found)
            os.close(os.open(self.path.name, os.O_WRONLY | _FILE, dir_fd=folder))
            return found

    def replace(self, folder: int, data: bytes, like: os.stat_result | None) -> None:
        """Put `data` in the place of the file: at any time there is the old text or the new one, never a half.

        The mode, and where that is allowed the owner, are those of `like`; but as with any writing, who runs the file
        does so as himself from then on, not as its owner. Unlike `bub.base.rewrite` it works in the
        folder that was opened, whatever its path leads to by now.
        """
        fresh = f".bub-{os.urandom(8).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE
        with self._explain_failure():
            try:
                with os.fdopen(os.open(fresh, flags, 0o666 if like is None else 0o600, dir_fd=folder), "wb") as file:
                    file.write(data)
                    file.flush()
                    if like is not None:
                        with suppress(OSError):
                            os.fchown(file.fileno(), like.st_uid, like.st_gid)
                        os.fchmod(file.fileno(), stat.S_IMODE(like.st_mode) & ~(stat.S_ISUID | stat.S_ISGID))
                    os.fsync(file.fileno())
                os.replace(fresh, self.path.name, src_dir_fd=folder, dst_dir_fd=folder)
            finally:
                with suppress(OSError):
                    os.unlink(fresh, dir_fd=folder)
            with suppress(OSError):
                os.fsync(folder)

    def remove(self, folder: int) -> None:
        """Delete the file in its opened folder, if it is there; `ToolError` when it is not a regular one."""
        with self._explain_failure():
            try:
                self._check(os.stat(self.path.name, dir_fd=folder, follow_symlinks=False))
                os.unlink(self.path.name, dir_fd=folder)
            except FileNotFoundError:
                return
            with suppress(OSError):
                os.fsync(folder)

    @contextmanager
    def _open_folder(self, folder: Path, *, make: bool) -> Iterator[int]:
        # A single file that is listed is its own root, and its folder is no part of what was allowed.
        root = self.root if folder.is_relative_to(self.root) else folder
        here = os.open(root, _FOLDER)
        try:
            self._check_kept(os.fstat(here))
            for part in folder.relative_to(root).parts:
                below = self._step(here, part, make=make)
                os.close(here)
                here = below
                self._check_kept(os.fstat(here))
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

    def _check_kept(self, found: os.stat_result) -> None:
        if identity(found) in self.kept:
            raise _refuse_private(self.shown)

    def _check(self, found: os.stat_result) -> None:
        if stat.S_ISDIR(found.st_mode):
            raise ToolError(f"{self.shown} is a folder", help="fs.list shows what is in it")
        if not stat.S_ISREG(found.st_mode):
            raise ToolError(f"{self.shown} is not a regular file but a pipe, a device or the like")
        self._check_kept(found)

    @contextmanager
    def _explain_failure(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise ToolError(f"{self.shown} does not exist", help="fs.list shows what there is") from None
        except OSError as error:
            raise ToolError(f"{self.shown} cannot be used: {explain_os_error(error)}") from None


class Reach(msgspec.Struct, frozen=True):
    """The folders that the tools may work in: the workspace, and what the setting `files.folders` lists."""

    workspace: Path
    listed: tuple[Path, ...]
    home: Path
    own: tuple[Path, ...] = ()
    """What says what the agent may do: pipeline files, and the plugins they name."""

    @classmethod
    def of(cls, context: ToolContext) -> Reach:
        """What a call may reach."""
        workspace = Path(os.path.realpath(context.workspace))
        said: Mapping[str, Any] = context.settings.get("files") or {}
        listed = (Path(os.path.realpath(workspace / _expand_home(str(name)))) for name in said.get("folders") or ())
        return cls(workspace, tuple(listed), _home(), context.own_files)

    def place(self, given: str, *, writing: bool = False) -> AllowedPath:
        """The place that a path leads to, which need not exist; `ToolError` (`denied`) if it is out of reach.

        Links are followed before anything is judged, and a relative path begins in the workspace (BEHAVIOURS A27).
        """
        if not given or "\0" in given:
            raise ToolError(f"{given!r} is not a path", kind="invalid_input")
        written = self.workspace / _expand_home(given)
        try:
            path = Path(os.path.realpath(written))
            too_long = len(os.fsencode(path)) > _LONGEST_PATH
        except OSError as error:  # what was a link a moment ago is none any more
            raise ToolError(f"{given} cannot be used: {explain_os_error(error)}") from None
        except RecursionError:
            raise ToolError(f"{given} cannot be used: too many links") from None
        except UnicodeError:
            raise ToolError(f"{given!r} is not a path", kind="invalid_input") from None
        if too_long:
            raise ToolError(f"{given[:100]}… is too long for a path", kind="invalid_input")
        roots = [folder for folder in (self.workspace, *self.listed) if path.is_relative_to(folder)]
        if not roots:
            raise ToolError(
                f"{given} is outside of the workspace",
                help="a person can list more folders in the settings, under `files.folders`",
                kind="denied",
            )
        root = max(roots, key=lambda folder: len(folder.parts))
        shown = str(path.relative_to(self.workspace) if path.is_relative_to(self.workspace) else path)
        if path not in self.listed:
            # By the name that it is asked for as well: a link leads to keys that may be called anything.
            for named in (Path(os.path.normpath(written)), path):
                self._check_name(given, named, writing=writing)
        if path.is_relative_to(self.home) and not root.is_relative_to(self.home):  # also before it is there
            raise _refuse_private(shown)
        return AllowedPath(path, root, shown, self._find_forbidden(root, writing=writing))

    def _check_name(self, given: str, path: Path, *, writing: bool) -> None:
        if holds_keys(path.name):
            raise ToolError(
                f"{given} holds keys, which are not for the agent",
                help="a person can list this very file in the settings, under `files.folders`",
                kind="denied",
            )
        if writing and self._says_what_may_be_done(path):
            raise ToolError(
                f"{given} says what the agent may do, so the agent does not write it",
                help="tell the person what to change",
                kind="denied",
            )

    def _says_what_may_be_done(self, path: Path) -> bool:
        # Compared as a disk does that takes capitals for small letters, as that of a Mac. A lock need not be there, for
        # whoever makes one has the next start refused.
        is_named_so = path.name.casefold() == FILE_NAME or is_lock(path.name)
        if is_named_so and path.parent == self.workspace:
            return True
        return any(path == Path(os.path.realpath(own)) for own in self.own)

    def _find_forbidden(self, root: Path, *, writing: bool) -> frozenset[Identity]:
        """What may be entered or opened only by who begins inside, or whose settings list that very file or folder."""
        kept = set()
        files = [self.workspace / DOTENV]
        if writing:
            files += [self.workspace / FILE_NAME, *self.own]  # what they hold is code in this process at the next start
        for path in (self.home, *map(Path, _OF_THE_SYSTEM), *files):
            with suppress(OSError):
                kept.add(identity(path.stat()))
        if root in self.listed:
            for path in (root,) if os.path.isdir(root) else (root, root.parent):  # noqa: PTH112 (raises nothing)
                with suppress(OSError):
                    kept.discard(identity(path.stat()))
        if self.workspace != self.home:  # whichever folder's file lists it: its keys are the person's
            with suppress(OSError):
                kept.add(identity((self.home / DOTENV).stat()))
        return frozenset(kept)


def _refuse_private(shown: str) -> ToolError:
    return ToolError(
        f"{shown} is one of Bub's own files or of the system's, which can hold keys",
        help="a person can list it in the settings, under `files.folders`",
        kind="denied",
    )


class ElsewhereError(OSError):
    """A file really is another one than it seems to be, at `real`: outside of its folder, or not for the agent."""

    def __init__(self, real: Path, reason: str) -> None:
        super().__init__(f"links lead to {real}, which is {reason}")
        self.real = real


def regular_file(path: str | Path, *, within: Path | None = None) -> tuple[Path, os.stat_result]:
    """Return the real path and the status of a file that nobody named, before it is opened: a pipe would wait.

    Raises `ElsewhereError` when links lead out of the folder `within`, or to what the tools leave alone in there: a
    stranger's folder must not be able to send any file of the user to a model. Raises OSError when it is no regular
    file, or cannot be looked at.
    """
    status = os.stat(path)  # noqa: PTH116 (first: it gives up where links never end)
    real = Path(os.path.realpath(path, strict=True))
    if not stat.S_ISREG(status.st_mode):
        raise OSError("it is not a regular file")
    if within is not None:
        folder = Path(os.path.realpath(within))
        if not real.is_relative_to(folder):
            raise ElsewhereError(real, "outside")
        try:
            place = Reach(folder, (), _home()).place(str(real))
            with place.parent() as parent:
                place.open(parent)[0].close()
        except ToolError as error:
            raise ElsewhereError(real, f"not for the agent: {error}") from None
    return real, status


def identity(found: os.stat_result) -> Identity:
    """Return what identifies a file or folder, under any name."""
    return found.st_dev, found.st_ino


def _home() -> Path:
    return Path(os.path.realpath(bub_home(os.environ)))


def _expand_home(path: str) -> str:
    return os.path.expanduser(path) if path.startswith("~/") else path  # noqa: PTH111 (raises nothing)
