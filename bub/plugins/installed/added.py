"""The packages that `bub plugins add` installed, as Bub's own folder remembers them: read, and looked for."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from bub.base.failures import explain_os_error
from bub.errors import BubError

FILE = "plugins/added.json"
"""The path of the list, below Bub's own folder."""

VERSION = 1

SYNC = "bub plugins sync"
"""The command that installs missing packages again."""


class Pin(msgspec.Struct, frozen=True):
    """One package at just one version, with the hashes of its files; `url` is where it lies if that is no index."""

    name: str
    version: str
    hashes: tuple[str, ...]
    url: str = ""

    @property
    def key(self) -> str:
        """The name in the form that is compared (PEP 503)."""
        return re.sub(r"[-_.]+", "-", self.name).lower()

    def requirement(self) -> str:
        """Return the line that asks for just this, and for nothing that it needs."""
        what = f"{self.name} @ {self.url}" if self.url else f"{self.name}=={self.version}"
        return " ".join([what, *(f"--hash={one}" for one in self.hashes)])


class Added(msgspec.Struct, frozen=True):
    """A package that was added: `source` as it was typed, paths in full; `commit` is what was taken of a repository.

    `environment` is the folder that it was installed into, `packages` are itself, first, and all that it needs of what
    was added; those that were not there before are `brought`. The `url` of a pin whose wheel is kept is its path among
    the wheels that are kept.
    """

    name: str
    version: str
    source: str
    environment: str
    plugins: tuple[str, ...]
    packages: tuple[Pin, ...]
    brought: tuple[str, ...] = ()
    commit: str = ""

    @property
    def key(self) -> str:
        """The package's name in the form that is compared."""
        return self.packages[0].key


class Record(msgspec.Struct, frozen=True):
    """What the file holds."""

    version: int
    added: tuple[Added, ...] = ()


def read_added(home: Path) -> tuple[Added, ...]:
    """Read what was added. Raises BubError if the file is damaged: nobody installs half a list."""
    path = home / FILE
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Record)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise BubError(f"{path} cannot be read: {explain_os_error(error)}", help="correct its permissions") from None
    except msgspec.MsgspecError:
        found = Record(0)
    if found.version != VERSION or not all(one.packages for one in found.added):
        raise BubError(f"{path} is damaged, or of another Bub", help="move it away, then add the plugins again")
    return found.added


def find_lost(
    added: Iterable[Added], prefix: str, version_of: Callable[[str], str | None] | None = None
) -> list[Added]:
    """Return what was added to an environment, or to one that is no more, and is not in this one: it was made again.

    `version_of` finds what is installed by its name; by default, in the environment of this process.
    """
    look = version_of or _version
    return [
        one
        for one in added
        if look(one.name) != one.version and (one.environment == prefix or not os.path.isdir(one.environment))  # noqa: PTH112 (it never raises)
    ]


def _version(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version  # 40 ms, which only those who added something pay

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def describe_lost(home: Path) -> str:
    """Say in a sentence which packages were added and are gone; "" if none is, or if the list cannot be read."""
    try:
        lost: Sequence[Added] = find_lost(read_added(home), sys.prefix)
    except BubError:
        return ""
    if not lost:
        return ""
    names = ", ".join(f"{one.name} {one.version}" for one in lost)
    are = "is" if len(lost) == 1 else "are"
    return f"{names}: added with `bub plugins add`, and {are} missing in this environment"
