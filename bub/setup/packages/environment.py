"""The environment that Bub runs in, as a place to install packages."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import distributions
from pathlib import Path

import msgspec

from bub.base.other_bub import OTHER, OURS
from bub.errors import BubError
from bub.setup.packages.distributions import Distribution, read_distributions
from bub.setup.packages.requirements import as_constraints, canonical, name_in

_MANAGED = "EXTERNALLY-MANAGED"
_ANOTHER = "install Bub into one of its own, as with `uv tool install` or `pipx install`"


class Environment(msgspec.Struct, frozen=True):
    """An environment: its Python, the folder `prefix` of it all, and `site`, the folder of modules below that."""

    python: str
    prefix: Path
    site: Path

    @classmethod
    def here(cls) -> Environment:
        """Return the one of this process."""
        return cls(sys.executable, Path(sys.prefix), Path(sysconfig.get_path("purelib")))

    def require_changeable(self) -> None:
        """Raise BubError if nothing can or should be installed into it."""
        managed = Path(sysconfig.get_path("stdlib")) / _MANAGED
        if sys.prefix == sys.base_prefix and managed.is_file():
            raise BubError(
                f"the Python in {self.prefix} belongs to the system, which installs its packages", help=_ANOTHER
            )
        for folder in (self.prefix, self.site):
            if not os.access(folder, os.W_OK):
                raise BubError(f"the environment cannot be changed: {folder} is read-only", help=_ANOTHER)

    def installed(self) -> dict[str, Distribution]:
        """Return the distributions in its folder of modules, by their names."""
        return read_distributions(self.site, self.prefix)

    def versions(self) -> dict[str, str]:
        """Return every distribution that can be imported, wherever it lies, with its version."""
        found: dict[str, str] = {}
        for one in distributions():
            name = one.metadata["Name"]
            if name:
                found.setdefault(canonical(name), one.version)
        return found

    def constraints(self, but: Iterable[str]) -> list[str]:
        """Return what installed packages need of others, `but` those that are replaced; it has to stay true."""
        skipped = set(but)
        lines: dict[str, None] = {}
        for one in distributions():
            if canonical(one.metadata["Name"] or "") not in skipped:
                lines.update(dict.fromkeys(as_constraints(one.requires or ())))
        return [line for line in lines if name_in(line) != OTHER]


def needed_by(installed: Mapping[str, Distribution], name: str) -> Iterator[str]:
    """Yield the installed distributions that need one."""
    for key, one in installed.items():
        if any(name_in(requirement) == name for requirement in one.about.requires):
            yield key


def is_bubs_own(name: str) -> bool:
    """Return whether a distribution is Bub itself, or the other program of its name."""
    return canonical(name) in (OURS, OTHER)
