"""The mark of a store into which a copy has begun and not ended: nobody works on half of what an agent knows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import msgspec

from bub.base.failures import explain_os_error
from bub.base.locate import remedy_for
from bub.base.private import make_private, open_private
from bub.errors import BubError

GO_ON = "give the same `bub store copy` again, which goes on, or use another store"


class Mark(msgspec.Struct, frozen=True):
    """That a copy has begun: `source` says from where, the same for each copy from there; `shown` is for people.

    `token` is another for each time that the copy goes on: who has an older one may not write any more.
    """

    source: str
    shown: str
    token: str = ""


class HalfCopyError(BubError):
    """A store holds half a copy: nobody may work on it."""

    def __init__(self, where: str, mark: Mark) -> None:
        super().__init__(f"{where} holds half a copy of {mark.shown}", help=GO_ON)


def mark_file(home: Path, memory: str) -> Path:
    """Name the file that is there while Bub's own folder holds half a copy of an agent's memory."""
    name = sha256(memory.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return home / "tapes" / f"inbox-{name}.copy"


def read_mark(file: Path) -> Mark | None:
    """Return what a file says; None if there is none. Raises `BubError` if it cannot be read."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Mark)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except msgspec.DecodeError:  # whatever it says, the copy has not ended
        return Mark("", "another store")
    except OSError as error:
        raise BubError(f"{file} cannot be read: {explain_os_error(error)}", help="see that it is yours") from error


def write_mark(file: Path, mark: Mark) -> None:
    """Keep a mark, on the disk when this returns. Raises `BubError`."""
    with _explain(file):
        make_private(file.parent)
        opened = open_private(file, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            os.write(opened, msgspec.json.encode(mark))
            os.fsync(opened)
        finally:
            os.close(opened)


def remove_mark(file: Path) -> None:
    """Say that a copy is whole. Raises `BubError`."""
    with _explain(file):
        file.unlink(missing_ok=True)


def check_whole(home: Path, memory: str) -> None:
    """Raise `HalfCopyError` if Bub's own folder holds half a copy of an agent's memory."""
    mark = read_mark(mark_file(home, memory))
    if mark is not None:
        raise HalfCopyError(str(home), mark)


@contextmanager
def _explain(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        remedy = remedy_for(file, "see that the disk has room and the folder is yours")
        raise BubError(f"{file} cannot be written: {explain_os_error(error)}", help=remedy) from error
