"""Writing a file as a whole: whatever happens meanwhile, there is the old text or the new one, never a half."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bub.base.failures import explain_os_error
from bub.base.locate import remedy_for
from bub.errors import BubError

_LEFT_OVER = re.compile(r"\.bub-([0-9]{1,10})-[0-9a-f]{16}")
"""A text on its way into a file, with the process that writes it."""


def rewrite(path: Path, old: bytes, new: bytes) -> Path:
    """Put `new` in the place of `old` in a file, and return the backup beside it, `NAME.bak`, that holds `old`.

    The file keeps its mode and, where that is allowed, its owner; of a link, what it leads to is written. The backup
    can be read by its owner only (mode 0600): it may hold a key that the file no longer does. Raises `BubError`, the
    file untouched, when it holds `old` no more, or when it or its folder cannot be written. A Ctrl-C meanwhile says in
    a note what the file holds.
    """
    target = Path(os.path.realpath(path))
    backup = target.with_name(f"{target.name}.bak")
    with _explain_failure(path, target, new):
        found = target.stat()
        if not os.access(target, os.W_OK):
            raise PermissionError(None, "the file is read-only")
        with _beside(target, old, found, private=True) as kept, _beside(target, new, found) as fresh:
            _check_same(path, target, old)
            kept.replace(backup)
            fresh.replace(target)
        _settle(target.parent)
    return backup


def exchange(path: Path, old: bytes, new: bytes) -> None:
    """Put `new` in the place of `old` in a file, and keep no backup; all else is as in `rewrite`."""
    target = Path(os.path.realpath(path))
    with _explain_failure(path, target, new):
        found = target.stat()
        if not os.access(target, os.W_OK):
            raise PermissionError(None, "the file is read-only")
        with _beside(target, new, found) as fresh:
            _check_same(path, target, old)
            fresh.replace(target)
        _settle(target.parent)


def write_new(path: Path, data: bytes) -> None:
    """Write a file that Bub made itself, over an older one of that name; raises `BubError` when it cannot be."""
    target = Path(os.path.realpath(path))
    with _explain_failure(path, target, data):
        found = target.stat() if target.exists() else None
        with _beside(target, data, found) as fresh:
            fresh.replace(target)
        _settle(target.parent)


def write_private(path: Path, old: bytes | None, new: bytes) -> None:
    """Put `new` in the place of `old` in a file that nobody else is to read (mode 0600), and keep no backup.

    `old` is None for a file that is not there yet; its folder is made. Raises `BubError` as `rewrite` does.
    """
    target = Path(os.path.realpath(path))
    with _explain_failure(path, target, new):
        target.parent.mkdir(parents=True, exist_ok=True)
        found = target.stat() if old is not None else None
        with _beside(target, new, found, private=True) as fresh:
            _check_same(path, target, old)
            fresh.replace(target)
        _settle(target.parent)


def require_writable(path: Path) -> None:
    """Raise `BubError` if a file, there or not, cannot be written as far as permissions tell; nothing is tried out."""
    target = Path(os.path.realpath(path))
    folder = next(folder for folder in target.parents if folder.exists())
    with _explain_failure(path, target, b""):
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(None, "the file is read-only")
        if not os.access(folder, os.W_OK | os.X_OK):
            is_read_only = hasattr(os, "statvfs") and os.statvfs(folder).f_flag & os.ST_RDONLY
            reason = errno.EROFS if is_read_only else errno.EACCES
            raise OSError(reason, os.strerror(reason))


def _check_same(path: Path, target: Path, old: bytes | None) -> None:
    if (target.read_bytes() if target.exists() else None) != old:
        raise BubError(
            f"{path} was changed by somebody else meanwhile",
            help="it holds what they wrote, and nothing of this change: run the command again",
        )


@contextmanager
def _beside(target: Path, data: bytes, like: os.stat_result | None, *, private: bool = False) -> Iterator[Path]:
    """A file with `data` in the folder of `target`, safely on the disk; what is still there at the end is removed."""
    _sweep(target.parent)
    fresh = target.with_name(f".bub-{os.getpid()}-{os.urandom(8).hex()}")
    try:
        # Readable by nobody else until it has the mode of the file whose text it holds.
        mode = 0o666 if like is None and not private else 0o600
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
            if like is not None:
                _give(fresh, like)
            if private:
                fresh.chmod(0o600)
            file.flush()
            os.fsync(file.fileno())
        yield fresh
    finally:
        with suppress(OSError):
            try:
                fresh.unlink(missing_ok=True)
            except KeyboardInterrupt:
                fresh.unlink(missing_ok=True)
                raise


def _sweep(folder: Path) -> None:
    """Remove what a write left in a folder that was killed in the middle of it."""
    for path in folder.glob(".bub-*"):
        writer = _LEFT_OVER.fullmatch(path.name)
        if writer is not None and _is_gone(int(writer[1])):
            with suppress(OSError):
                path.unlink()


def _is_gone(process: int) -> bool:
    """Whether a process is known to have ended; to ask is safe on POSIX only."""
    if os.name != "posix":
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False  # it is somebody else's
    return False


def _give(path: Path, like: os.stat_result) -> None:
    """The owner, as far as one may give files away, and the mode of another file."""
    own = path.stat()
    if hasattr(os, "chown") and (own.st_uid, own.st_gid) != (like.st_uid, like.st_gid):
        with suppress(OSError):
            os.chown(path, like.st_uid, like.st_gid)
    path.chmod(stat.S_IMODE(like.st_mode))


def _settle(folder: Path) -> None:
    """Let the new names in a folder outlive a power failure, where folders can be opened for that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _explain_failure(path: Path, target: Path, new: bytes) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as stop:
        with suppress(OSError):
            stop.add_note(f"{path} is {'written' if target.exists() and target.read_bytes() == new else 'as it was'}")
        raise
    except OSError as error:
        raise BubError(
            f"{path} cannot be written: {explain_os_error(error)}",
            help=remedy_for(path, "it is as it was; look at the permissions of its folder and the room on the disk"),
        ) from error
