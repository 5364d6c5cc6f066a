"""The environment that Bub runs in, as a place to install packages."""

from __future__ import annotations

import importlib.metadata
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from bub.base.other_bub import OTHER
from bub.errors import BubError
from bub.setup.packages.distributions import Distribution, read_distributions
from bub.setup.packages.requirements import as_constraints, canonical, name_in

_MANAGED = "EXTERNALLY-MANAGED"
_ANOTHER = "install Bub into an environment of its own, as with `uv tool install` or `pipx install`"


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
        return {canonical(one.metadata["Name"]): one.version for one in self._all()}

    def needs(self) -> dict[str, set[str]]:
        """Return every distribution that can be imported, with the names of what it needs."""
        return {
            canonical(one.metadata["Name"] or ""): {name_in(requirement) for requirement in one.requires or ()}
            for one in self._all()
        }

    def constraints(self, but: Iterable[str]) -> list[str]:
        """Return what installed packages need of others, `but` those that are replaced; it has to stay true."""
        skipped = set(but)
        lines: dict[str, None] = {}
        for one in self._all():
            if canonical(one.metadata["Name"] or "") not in skipped:
                lines.update(dict.fromkeys(as_constraints(one.requires or ())))
        return [line for line in lines if name_in(line) != OTHER]

    def _all(self) -> Iterator[importlib.metadata.Distribution]:
        """Every distribution that can be imported; of two of one name, the first counts."""
        found: dict[str, None] = {}
        for one in importlib.metadata.distributions(path=list(dict.fromkeys([str(self.site), *sys.path]))):
            name = canonical(one.metadata["Name"] or "")
            if name and name not in found:
                found[name] = None
                yield one
