"""What an unpacked distribution says of itself, read in bounds and without running anything of it."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from email.parser import HeaderParser
from pathlib import Path
from types import MappingProxyType

import msgspec

from bub.base.failures import explain_os_error
from bub.errors import BubError
from bub.setup.packages.requirements import canonical

__all__ = ["Distribution", "Metadata", "read_distributions", "read_metadata"]

_MOST_METADATA = 2_000_000
"""Bytes of a file about a package. Each start of Bub reads some of them, so that nobody may make them slow."""

_MOST_RECORD = 30_000_000


class Metadata(msgspec.Struct, frozen=True):
    """What the file METADATA of a wheel says: `requires` are the requirements as they are written."""

    name: str
    version: str
    summary: str = ""
    requires_python: str = ""
    requires: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name in the form that is compared."""
        return canonical(self.name)


class Distribution(msgspec.Struct, frozen=True):
    """A distribution that lies unpacked below a prefix.

    `entry_points` are by group and name. `files` are the paths of all its files below the prefix, its own record and
    what lies outside of the folder of modules included.
    """

    about: Metadata
    entry_points: Mapping[str, Mapping[str, str]]
    files: tuple[str, ...]

    @property
    def key(self) -> str:
        """The name in the form that is compared."""
        return self.about.key

    @property
    def version(self) -> str:
        """The version, as the package says it."""
        return self.about.version


def read_distributions(site: Path, prefix: Path) -> dict[str, Distribution]:
    """Read every distribution in a folder of modules, by its name; of what is broken there is nothing.

    `prefix` is the folder of the environment around it.
    """
    found = {}
    for folder in sorted(site.glob("*.dist-info")):
        try:
            one = read_distribution(folder, prefix)
        except (OSError, BubError):
            continue
        found[one.key] = one
    return found


def read_distribution(folder: Path, prefix: Path) -> Distribution:
    """Read a distribution from its folder `NAME.dist-info`. Raises BubError if something in it cannot be used."""
    about = read_metadata(_read(folder / "METADATA", _MOST_METADATA), folder.name)
    entry_points = folder / "entry_points.txt"
    text = _read(entry_points, _MOST_METADATA).decode("utf-8", "replace") if entry_points.is_file() else ""
    return Distribution(about, _read_entry_points(text), tuple(_files(folder, prefix)))


def read_metadata(data: bytes, file: str) -> Metadata:
    """Read a file METADATA; raises BubError that names the `file` if it does not say what it has to."""
    head = data.replace(b"\r\n", b"\n").partition(b"\n\n")[0].decode("utf-8", "replace")
    said = HeaderParser().parsestr(head)
    if not said["Name"] or not said["Version"]:
        raise BubError(f"{file} has no name or no version", help="tell whoever made the package")
    return Metadata(
        said["Name"].strip(),
        said["Version"].strip(),
        (said["Summary"] or "").strip(),
        (said["Requires-Python"] or "").strip(),
        tuple(one.strip() for one in said.get_all("Requires-Dist", ())),
    )


def _read(file: Path, most: int) -> bytes:
    try:
        with file.open("rb") as stream:
            data = stream.read(most + 1)
    except OSError as error:
        raise BubError(f"{file.parent.name}/{file.name} cannot be read: {explain_os_error(error)}") from None
    if len(data) > most:
        raise BubError(
            f"{file.parent.name}/{file.name} is larger than {most // 1_000_000} MB, and Bub reads it at each start",
            help="tell whoever made the package",
        )
    return data


def _read_entry_points(text: str) -> Mapping[str, Mapping[str, str]]:
    groups: dict[str, dict[str, str]] = {}
    heading = ""
    for line in map(str.strip, text.splitlines()):
        name, equals, value = line.partition("=")
        if line.startswith("[") and line.endswith("]"):
            heading = line[1:-1].strip()
        elif equals and not line.startswith(("#", ";")):
            groups.setdefault(heading, {})[name.strip()] = value.strip()
    return MappingProxyType(groups)


def _files(folder: Path, prefix: Path) -> list[str]:
    """The paths that RECORD names, below the prefix; one that leads out of it is kept as it is, with its dots."""
    text = _read(folder / "RECORD", _MOST_RECORD).decode("utf-8", "replace")
    paths = [row[0] for row in csv.reader(text.splitlines()) if row]
    return [os.path.relpath(os.path.normpath(folder.parent / path), prefix) for path in paths]
