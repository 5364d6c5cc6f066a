"""The paths of this machine that a confined command may write, read, and never sees."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from bub.base.confinement.entries import NEEDED, find, problem_of
from bub.base.confinement.value import Confinement, reaches_outside
from bub.base.locate import DOTENV, bub_home
from bub.errors import BubError

_ETC = Path("/etc")

_OF_PROGRAMS = (
    *("alternatives", "bash.bashrc", "bash_completion.d", "ca-certificates", "ca-certificates.conf", "debian_version"),
    *("environment", "fonts", "fstab", "gai.conf", "gitconfig", "group", "host.conf", "hostname", "hosts", "inputrc"),
    *("java-11-openjdk", "java-17-openjdk", "java-21-openjdk", "ld.so.cache", "ld.so.conf", "ld.so.conf.d"),
    *("locale.alias", "locale.conf", "localtime", "login.defs", "lsb-release", "machine-id", "magic", "mailcap"),
    *("manpath.config", "mime.types", "nsswitch.conf", "os-release", "passwd", "perl", "pki/tls/certs"),
    *("pki/ca-trust/extracted", "profile", "profile.d", "protocols", "python3", "redhat-release", "resolv.conf"),
    *("rpc", "services", "shells", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone", "xattr.conf"),
)
"""Files and folders of `/etc` that programs read; none of them holds a key."""

_OF_THE_MACHINE = ("/sys/devices/system",)
"""What tells programs how many processors there are."""

_NAMES = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf")
"""The places that `/etc/resolv.conf` may lead to, for commands that reach a network."""


class UnconfinableError(BubError):
    """What `reach` says cannot be enforced here; the text is a clause that says why."""


class Walls(msgspec.Struct, frozen=True):
    """What holds for one command: real paths of what is there, except links in `/etc` and Bub's own folder.

    What may be written may be read. Every command may read `programs`, and `settings`, which lie in `/etc`. `hidden`
    are folders and files that none sees, and `kept` those that none writes, although they lie in what may be written.
    `missing` are files that must not appear.
    """

    write: tuple[Path, ...]
    read: tuple[Path, ...]
    programs: tuple[Path, ...]
    settings: tuple[Path, ...]
    hidden: tuple[Path, ...]
    kept: tuple[Path, ...]
    missing: tuple[Path, ...]
    reaches_network: bool

    @property
    def exceptions(self) -> Iterator[Path]:
        """Yield what is to be protected although it lies in what is opened."""
        yield from (path for path in self.hidden if _lies_in(path, (*self.write, *self.read)))
        yield from (path for path in (*self.kept, *self.missing) if _lies_in(path, self.write))


def build_walls(
    confinement: Confinement, workspace: Path, own_files: Iterable[Path], environ: Mapping[str, str]
) -> Walls:
    """Find the paths that a confinement means.

    `own_files` say what the agent may do, so no command writes them, and none sees the `.env` beside them. Raises
    `UnconfinableError` for a folder that does not exist, and for one that would show Bub's own.
    """
    base, home = Path(os.path.realpath(workspace)), Path(os.path.expanduser("~"))  # noqa: PTH111 (raises nothing)
    own = Path(os.path.realpath(bub_home(environ)))
    write = _find_listed(confinement.write, base, home)
    read = (base, *_find_listed(confinement.read, base, home))
    if own in (*write, *read):
        raise UnconfinableError(f"{own} is Bub's own folder, which no command may see")
    network = reaches_outside(confinement)
    needs = (*NEEDED, *_OF_THE_MACHINE, *(_NAMES if network else ()), sys.base_prefix, sys.prefix)
    files = [Path(os.path.realpath(file)) for file in own_files]
    keys = list(dict.fromkeys(file.parent / DOTENV for file in files))
    return Walls(
        write,
        _outermost(read),
        _outermost(path for path in _present(needs) if not home.is_relative_to(path)),
        tuple(path for path in (_ETC / name for name in _OF_PROGRAMS) if path.exists()),
        (*((own,) if own.exists() or _lies_in(own, write) else ()), *_present(keys)),
        tuple(_present(files)),
        tuple(path for path in keys if not os.path.lexists(path)),
        network,
    )


def _find_listed(entries: Iterable[str], workspace: Path, home: Path) -> tuple[Path, ...]:
    found = []
    for entry in entries:
        if problem := problem_of(entry):
            raise UnconfinableError(f"`{entry}` is no folder: {problem}")
        path = find(entry, workspace, home)
        if not path.exists():
            raise UnconfinableError(f"`{entry}` does not exist")
        found.append(Path(os.path.realpath(path)))
    return tuple(dict.fromkeys(found))


def _present(names: Iterable[str | Path]) -> Iterator[Path]:
    """Yield the real paths of what is there, each once."""
    return (path for path in dict.fromkeys(Path(os.path.realpath(name)) for name in names) if path.exists())


def _outermost(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Leave out what lies in another of the folders."""
    given = tuple(dict.fromkeys(paths))
    return tuple(path for path in given if not _lies_in(path, (other for other in given if other != path)))


def _lies_in(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)
