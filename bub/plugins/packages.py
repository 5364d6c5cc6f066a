"""What installed packages say of their plugins in JSON files, found by entry points without importing a plugin."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from bub.base.failures import explain_os_error
from bub.hookspecs import BUB_HOOK_NAMESPACE

if TYPE_CHECKING:  # importing it costs 40 ms, which only a file with such a plugin pays
    from importlib.metadata import EntryPoint

SCHEMAS, LABELS = "bub.schema", "bub.labels"
"""The groups of the entry points that say where the schemas of settings are, and what tools and channels do."""

Whereabouts: TypeAlias = tuple[tuple[str, int], ...]
"""The places of packages, and when each was last changed: what was found there holds until then."""

_MOST_BYTES = 1_000_000
_NAME = "[A-Za-z][A-Za-z0-9_.-]*"


class InstalledFile(msgspec.Struct, frozen=True):
    """What the JSON `file` holds that an installed package brings for a plugin.

    `source` names the package. If the file cannot be used, `problem` says why, in one clause that follows that name.
    """

    source: str
    file: str = ""
    value: Any = None
    problem: str = ""


def file_of(group: str, plugin: str, what: str) -> InstalledFile | None:
    """Read the file that the entry point of this name in a group leads to; None if there is none. `what` it is."""
    return _file(group, plugin, what, whereabouts())


def offering(group: str) -> list[str]:
    """List the plugins for which a package has an entry point in a group."""
    return sorted(_offers(group, whereabouts()))


def installed_names() -> frozenset[str]:
    """Return the names of all plugins that installed packages bring, or bring a schema for; nothing is imported."""
    return _names(whereabouts())


def whereabouts() -> Whereabouts:
    """Return where packages are installed now."""
    return tuple((place, _time_of_change(place)) for place in sys.path)


def _time_of_change(place: str) -> int:
    try:
        return os.stat(place or ".").st_mtime_ns  # noqa: PTH116 (asked for every file that is checked)
    except OSError:
        return 0


@lru_cache(maxsize=1)
def _names(whereabouts: Whereabouts) -> frozenset[str]:
    """Read the names alone: a tenth of what it costs to import what knows all of a package's metadata."""
    headings = (f"[{SCHEMAS}]", f"[{BUB_HOOK_NAMESPACE}]")
    names = set()
    for text in _entry_point_texts(place for place, _ in whereabouts):
        heading = ""
        for line in map(str.strip, text.splitlines()):
            name, equals, _ = line.partition("=")
            if line.startswith("["):
                heading = line
            elif heading in headings and equals:
                names.add(name.rstrip())
    return frozenset(names)


def _entry_point_texts(places: Iterable[str]) -> Iterator[str]:
    for place in places:
        with suppress(OSError), os.scandir(place or ".") as entries:
            folders = [entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
            for folder in folders:
                with suppress(OSError, UnicodeDecodeError):
                    yield Path(folder, "entry_points.txt").read_text(encoding="utf-8")


@lru_cache(maxsize=2)
def _offers(group: str, _: Whereabouts) -> Mapping[str, tuple[EntryPoint, ...]]:
    """Return the entry points of each name: more than one if packages disagree."""
    from importlib.metadata import entry_points

    offers: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=group):
        others = offers.get(entry.name, ())
        if re.fullmatch(_NAME, entry.name) and all(other.value != entry.value for other in others):
            offers[entry.name] = (*others, entry)
    return offers


@lru_cache(maxsize=256)
def _file(group: str, plugin: str, what: str, whereabouts: Whereabouts) -> InstalledFile | None:
    entries = _offers(group, whereabouts).get(plugin, ())
    if not entries:
        return None
    source = " and ".join(_package(entry) for entry in entries)
    if len(entries) > 1:
        return InstalledFile(source, problem=f"each bring {what} for it")
    return _read(entries[0], source)


def _read(entry: EntryPoint, source: str) -> InstalledFile:
    """The file an entry point names, or what is wrong with it."""
    import json  # only for what such a plugin brings

    try:
        package, file = entry.module, entry.attr or ""
    except (AssertionError, AttributeError, ValueError):  # what a Python raises if it cannot take the value apart
        package = file = ""
    if not file.endswith(".json") or not all(part.isidentifier() for part in package.split(".")):
        problem = f"names `{entry.value}`, which is not of the form `package:file.json`"
        return InstalledFile(source, problem=problem)
    try:
        found = next((path for path in places_of(entry, package, file) if path.is_file()), None)
        if found is None:
            problem = f"names `{entry.value}`, and there is no such file in the package"
            return InstalledFile(source, file, problem=problem)
        with found.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            return InstalledFile(source, file, problem=f"brings {file}, which is larger than 1 MB")
        return InstalledFile(source, file, json.loads(data))
    except (OSError, ValueError, RecursionError) as error:
        reason = explain_os_error(error) if isinstance(error, OSError) else "it is not JSON"
        return InstalledFile(source, file, problem=f"brings {file}, which cannot be read: {reason}")


def _package(entry: EntryPoint) -> str:
    try:
        return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value
    except Exception:  # noqa: BLE001 (broken metadata of others; the entry point itself was read all the same)
        return entry.value


def places_of(entry: EntryPoint, package: str, file: str) -> Iterator[Path]:
    """Yield where a file may lie: beside its package's own metadata, else where its import would find it (editable)."""
    top, *below = package.split(".")
    if entry.dist is not None:
        yield Path(str(entry.dist.locate_file("/".join((top, *below, file)))))
    # The spec of a top-level package is found without running any of it; that of a package in it would import it.
    try:
        spec = find_spec(top)
    except (ImportError, ValueError, AttributeError):
        return
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield Path(folder, *below, file)
