"""Files of Bub's own: for their owner only, and for one process at a time."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["hold_together", "lock_file", "make_private", "open_private"]

_HELD = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
"""What systems say of a file that another process has locked."""


def make_private(folder: Path) -> None:
    """Make a folder, and whatever is missing around it, for its owner only; one that is there stays as it is."""
    if not folder.parent.exists():
        make_private(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def open_private(path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> int:
    """Open a file, made for its owner only if it is new; return its descriptor, which no child process gets."""
    return os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o600)


@contextmanager
def hold_together(path: Path) -> Iterator[None]:
    """Hold a file beside others that do so, as long as the block lasts: whoever wants to lock it alone sees that.

    Raises BlockingIOError if somebody has locked it alone. A folder that cannot be written is no reason to fail.
    """
    descriptor = None
    try:
        try:
            make_private(path.parent)
            descriptor = open_private(path)
            lock_file(descriptor, wait=False, shared=True)
        except BlockingIOError:
            raise
        except OSError:
            pass
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def lock_file(descriptor: int, *, wait: bool = True, shared: bool = False) -> None:
    """Lock an open file until its descriptor is closed; the system frees the lock if the process dies.

    A `shared` lock lets others have one, too; Windows has none. Raises BlockingIOError if another process holds it and
    `wait` is false, and OSError if it cannot be locked at all.
    """
    try:
        if sys.platform != "win32":
            kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
            fcntl.flock(descriptor, kind if wait else kind | fcntl.LOCK_NB)
        elif not shared:
            msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
    except OSError as error:
        if error.errno in _HELD:
            raise BlockingIOError(error.errno, "another process holds it") from error
        raise
