"""What `bub plugins add` installed, in Bub's own folder: enough to install exactly that again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from bub.base.failures import explain_os_error
from bub.base.private import lock_file, make_private, open_private
from bub.base.rewrite import write_private
from bub.errors import BubError
from bub.setup.packages.installer import Pin

__all__ = ["Added", "keep_wheel", "missing_from", "read_added", "update_added", "wheel_of"]

_FILE, _WHEELS, _LOCK = "plugins/added.json", "plugins/wheels", "plugins/lock"
_VERSION = 1


class Added(msgspec.Struct, frozen=True):
    """A package that was added: `source` as it was typed, with what was taken of a repository.

    `environment` is the folder that it was installed into, `packages` are itself and all that came with it. The `url`
    of a pin is the address of its wheel; that of one that is kept in Bub's own folder is its path there.
    """

    name: str
    version: str
    source: str
    environment: str
    plugins: tuple[str, ...]
    packages: tuple[Pin, ...]


class _Record(msgspec.Struct, frozen=True):
    version: int
    added: tuple[Added, ...] = ()


def read_added(home: Path) -> tuple[Added, ...]:
    """Read what was added. Raises BubError if the file is damaged: nobody installs half a list."""
    path = home / _FILE
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_Record)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise BubError(f"{path} cannot be read: {explain_os_error(error)}", help="correct its permissions") from None
    except msgspec.MsgspecError:
        found = _Record(0)
    if found.version != _VERSION:
        raise BubError(f"{path} is damaged, or of another Bub", help="move it away, then add the plugins again")
    return found.added


def update_added(home: Path, change: Callable[[Sequence[Added]], Sequence[Added]]) -> None:
    """Write what `change` makes of what was added, and remove the wheels that nothing needs any more."""
    make_private(home / "plugins")
    lock = open_private(home / _LOCK)
    try:
        lock_file(lock)
        path = home / _FILE
        added = tuple(change(read_added(home)))
        old = path.read_bytes() if path.exists() else None
        new = msgspec.json.format(msgspec.json.encode(_Record(_VERSION, added)), indent=2) + b"\n"
        if new != old:
            write_private(path, old, new)
        needed = {pin.url for one in added for pin in one.packages}
        for wheel in (home / _WHEELS).glob("*/*.whl"):
            if wheel.relative_to(home / _WHEELS).as_posix() not in needed:
                shutil.rmtree(wheel.parent, ignore_errors=True)
    finally:
        os.close(lock)


def keep_wheel(home: Path, wheel: Path, hash_of_it: str) -> str:
    """Keep a wheel that no index has in Bub's own folder; return its path among those that are kept."""
    place = f"{hash_of_it.removeprefix('sha256:')[:16]}/{wheel.name}"
    make_private((home / _WHEELS / place).parent)
    shutil.copyfile(wheel, home / _WHEELS / place)
    return place


def wheel_of(home: Path, pin: Pin) -> Pin:
    """Return a pin whose wheel is kept with the address of that."""
    if not pin.url or "://" in pin.url:
        return pin
    return msgspec.structs.replace(pin, url=(home / _WHEELS / pin.url).as_uri())


def missing_from(added: Sequence[Added], prefix: str, versions: dict[str, str]) -> list[Added]:
    """Return what was added to an environment, or to one that is no more, and is not in it: it was made anew."""
    return [
        one
        for one in added
        if versions.get(one.packages[0].key) != one.version
        and (one.environment == prefix or not os.path.isdir(one.environment))  # noqa: PTH112 (it never raises)
    ]
