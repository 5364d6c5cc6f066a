"""Finding the plugins that a profile lists, in files and in installed packages; nothing of them is imported."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from bub.base.diagnostics import Diagnostic, Findings, Place, Related, Severity, sure_repair
from bub.hooks.facts import BUILTIN
from bub.hookspecs import BUB_HOOK_NAMESPACE
from bub.plugins.plugin_set import PluginSet, PluginStatus

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

EntryPoints: TypeAlias = "Mapping[str, tuple[EntryPoint, ...]]"
"""What the installed packages offer as plugins, by name: more than one if they disagree."""


PYTHON, ASYNCIO = "python", "asyncio"
"""What `runtime` may be."""


class Declared(msgspec.Struct, frozen=True):
    """What the `plugins:` section of a file says of one name; `place` is where it says it."""

    name: str
    path: Path | None = None
    optional: bool = False
    place: Place | None = None
    runtime: str = PYTHON
    """What runs it: `PYTHON`, which is where Bub runs, or `ASYNCIO`."""


class ListedPlugin(msgspec.Struct, frozen=True):
    """A name of the profile's list and where its plugin is: an entry point, or a file (`shown` to the user so)."""

    name: str
    optional: bool
    source: str
    entry: EntryPoint | None = None
    file: Path | None = None
    shown: str = ""

    @property
    def severity(self) -> Severity:
        return "warning" if self.optional else "error"


def installed_plugins() -> dict[str, EntryPoint]:
    """Find every plugin that an installed package offers, by name; nothing of it is imported."""
    return {name: offers[0] for name, offers in read_entry_points().items()}


def read_entry_points() -> EntryPoints:
    """Read what the installed packages offer; nothing of it is imported."""
    from importlib.metadata import entry_points  # 42 ms, so only where plugins are asked for

    offers: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=BUB_HOOK_NAMESPACE):
        others = offers.get(entry.name, ())
        if all(other.value != entry.value for other in others):
            offers[entry.name] = (*others, entry)
    return offers


def _describe(entry: EntryPoint) -> str:
    """Say in words where an installed plugin comes from."""
    words = f"entry point {entry.value}"
    try:
        return f"{words} ({entry.dist.name} {entry.dist.version})" if entry.dist is not None else words
    except Exception:  # noqa: BLE001 (a package with broken metadata still loads; its name is only a courtesy)
        return words


def find_plugins(
    names: Sequence[tuple[str, Place]],
    *,
    declared: Mapping[str, Declared],
    base: Path | None,
    entry_points: Callable[[], EntryPoints] | None = None,
) -> tuple[Diagnostic, ...]:
    """Find what is wrong with a profile's list without importing a plugin (B160, B161).

    `entry_points` gives what the installed packages offer, for a caller with many lists that asks for it only once.
    """
    search = Search(declared, base, entry_points or read_entry_points)
    search.find(names)
    return tuple(search.findings.items)


def survey(plugin_set: PluginSet, installed: Mapping[str, EntryPoint]) -> tuple[PluginStatus, ...]:
    """Say what became of every plugin that is known: those of the set, then what is installed but not listed."""
    seen = {status.name for status in plugin_set.statuses}
    others = (
        PluginStatus(name, "not listed", _describe(entry), "installed, but this profile does not list it")
        for name, entry in sorted(installed.items())
        if name not in seen
    )
    return (*plugin_set.statuses, *others)


class Search(msgspec.Struct):
    """The search for the plugins of one profile: the places they are at, and what is wrong with its list."""

    declared: Mapping[str, Declared]
    base: Path | None
    entry_points: Callable[[], EntryPoints]
    places: dict[str, Place] = msgspec.field(default_factory=dict)
    statuses: dict[str, PluginStatus] = msgspec.field(default_factory=dict)
    findings: Findings = msgspec.field(default_factory=Findings)

    def find(self, names: Sequence[tuple[str, Place]]) -> list[ListedPlugin]:
        """Find where the plugin of each listed name is; names without one become findings and are left out."""
        offers = self.entry_points() if any(not self._has_path(name) for name, _ in names) else {}
        found = []
        for name, place in names:
            if name == BUILTIN:
                self.findings.add(
                    "B161",
                    f"`{BUILTIN}` is part of every profile and cannot be listed",
                    place,
                    help=f"take `{BUILTIN}` off the list",
                )
                continue
            if name in self.places:
                self.findings.add(
                    "B161",
                    f"plugin `{name}` is listed twice",
                    place,
                    help="list it once; Bub asks the last plugin of the list first",
                    related=[self.listing_of(name)],
                )
                continue
            self.places[name] = place
            said = self.declared.get(name, Declared(name))
            if said.path is not None:
                listed = self._find_file(name, said, said.path)
            else:
                listed = self._find_entry(name, said, offers)
            if listed is not None:
                found.append(listed)
        return found

    def _has_path(self, name: str) -> bool:
        said = self.declared.get(name)
        return said is not None and said.path is not None

    def listing_of(self, name: str) -> Related:
        """Return the place the profile lists a name at, to be beside a finding."""
        place = self.places[name]
        return Related(f"`{name}` is listed here", place.file, place.range)

    def _find_file(self, name: str, said: Declared, path: Path) -> ListedPlugin | None:
        source = f"path {path}"
        # `os.path` answers where `Path` would raise: for a home of nobody, no right to look, an impossible name.
        meant = Path(os.path.expanduser(path))  # noqa: PTH111
        near = meant if self.base is None else self.base / meant
        if self.base is None and not near.is_absolute():
            problem = "is relative, but what names it has no folder"
        elif os.path.isfile(near):  # noqa: PTH113
            return ListedPlugin(name, said.optional, source, file=near.absolute(), shown=str(near))
        elif os.path.isdir(near):  # noqa: PTH112
            problem = "is a folder, not a Python file"
        elif said.optional:
            self._miss(name, source)
            return None
        else:
            problem = "does not exist"
        message = f"plugin `{name}`: the file {near} {problem}"
        remedy = "`path` is relative to the pipeline file that has it"
        self.findings.add("B160", message, said.place or self.places[name], help=remedy)
        self.statuses[name] = PluginStatus(name, "failed", source, message)
        return None

    def _find_entry(self, name: str, said: Declared, offers: EntryPoints) -> ListedPlugin | None:
        place = self.places[name]
        entries = offers.get(name, ())
        if not entries:
            if said.optional:
                self._miss(name, "")
                return None
            message = f"plugin `{name}` is listed, but not installed"
            with_path = {other for other in self.declared if self._has_path(other)}
            known = {*offers, *with_path}
            install = "install the package that brings it, give it a `path` under `plugins:`, or take it off the list"
            # An installed package is not listed by a guess: that would import it.
            meant = self.findings.did_you_mean(name, known)
            repair = sure_repair(name, known) if meant else None
            fix = repair if repair in with_path and repair not in self.places else None
            self.findings.add("B160", message, place, help=meant or install, fix=fix)
            self.statuses[name] = PluginStatus(name, "failed", "", message)
            return None
        listed = ListedPlugin(name, said.optional, _describe(entries[0]), entry=entries[0])
        if len(entries) == 1:
            return listed
        sources = " and ".join(_describe(entry) for entry in entries)
        self.findings.add(
            "B161",
            f"more than one package brings plugin `{name}`: {sources}",
            place,
            severity=listed.severity,
            help="uninstall the package that you do not want",
        )
        self.statuses[name] = PluginStatus(name, "failed", sources, "brought by more than one package")
        return None

    def _miss(self, name: str, source: str) -> None:
        self.statuses[name] = PluginStatus(name, "missing", source, "optional, and not there")
