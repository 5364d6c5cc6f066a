"""Which packages are installed, and which files they brought, read from the folders that installers leave.

`importlib.metadata` would take 40 ms to be imported; what is read here is only what a lock names.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from bub.plugins.lock.facts import PackageFacts, digest_of_bytes

_DIST_INFO = ".dist-info"
_EVERYWHERE = "any"


class Installed(NamedTuple):
    """An installed package: its version, and the folder of what its installer says of it."""

    version: str
    info: Path


class _Recorded(NamedTuple):
    """A file that a package brought, and its hash as the package says it: `sha256=…`."""

    path: str
    hash: str


def find_installed() -> Mapping[str, Installed]:
    """Find every package that can be imported, by its canonical name; of two of one name, the first counts."""
    found: dict[str, Installed] = {}
    for place in sys.path:
        with suppress(OSError), os.scandir(place or ".") as entries:
            for entry in entries:
                if entry.name.endswith(_DIST_INFO):
                    name, _, version = entry.name.removesuffix(_DIST_INFO).partition("-")
                    found.setdefault(canonical(name), Installed(version, Path(entry.path)))
    return found


def canonical(name: str) -> str:
    """Return a distribution's name in the one form that installers compare (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def package_facts(installed: Installed, *, look_inside: bool = False) -> PackageFacts:
    """Note of an installed package what a lock keeps; of an editable one, that is its version.

    The digest is that of the list of its files with their hashes. To `look_inside` is to take the hashes of the files
    that are there, so that one that was changed by hand shows.
    """
    if is_editable(installed):
        return PackageFacts(installed.version)
    files = sorted(_files(installed.info))
    if look_inside:
        files = [_Recorded(path, _hash_of(installed.info.parent / path)) for path, _ in files]
    listed = "".join(f"{one.path},{one.hash}\n" for one in files)
    return PackageFacts(installed.version, {_tag_of(installed.info): digest_of_bytes(listed.encode())})


def is_editable(installed: Installed) -> bool:
    """Whether a package is a folder that is being worked on, so that its files may change at any time."""
    origin = origin_of(installed)
    folder = origin.get("dir_info")
    return isinstance(folder, dict) and folder.get("editable") is True


def origin_of(installed: Installed) -> Mapping[str, object]:
    """Return what an installer noted of where a package came from (PEP 610); {} for one that an index has."""
    try:
        said = msgspec.json.decode(_read(installed.info / "direct_url.json"))
    except msgspec.DecodeError:
        return {}
    return said if isinstance(said, dict) else {}


def _files(info: Path) -> Iterator[_Recorded]:
    """What RECORD says of the package's files, except what is another one on each machine."""
    own = f"{info.name}/"
    for line in _read(info / "RECORD").decode(errors="replace").splitlines():
        path, _, rest = line.rpartition(",")[0].rpartition(",")
        path = path.strip('"')
        is_own = path.startswith(own) and path != f"{own}entry_points.txt"
        if rest.startswith("sha256=") and not (is_own or path.startswith(("..", "/")) or path.endswith(".pyc")):
            yield _Recorded(path, rest)


def _hash_of(file: Path) -> str:
    digest = hashlib.sha256(_read(file)).digest()
    return f"sha256={urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def _tag_of(info: Path) -> str:
    """The tag of the wheel that a package was installed from, the first of several."""
    text = _read(info / "WHEEL").decode(errors="replace")
    return next(
        (line.removeprefix("Tag:").strip() for line in text.splitlines() if line.startswith("Tag:")), _EVERYWHERE
    )


def _read(file: Path) -> bytes:
    """What a file holds; nothing if it cannot be read."""
    try:
        return file.read_bytes()
    except OSError:
        return b""
