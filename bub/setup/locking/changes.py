"""What differs between two locks, as the lines of a diff."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bub.plugins.lock.drift import (
    Drift,
    compare_definitions,
    compare_package,
    compare_plugin,
    compare_server,
    compare_sources,
)
from bub.plugins.lock.facts import Lock, PluginFacts, ServerFacts
from bub.setup.locking.resolving import Package

_GONE = "it is no longer named"


def changes_between(old: Lock, new: Lock) -> tuple[Drift, ...]:
    """Find what a new lock says otherwise than an old one, plugins first; what several profiles share is given once."""
    found = (*_plugins(old, new), *_servers(old, new), *_packages(old, new))
    return tuple(dict.fromkeys(found))


def archives_between(old: Sequence[Package], new: Sequence[Package]) -> tuple[Drift, ...]:
    """Find the archives that have other content than before, though they have the same name."""
    before, after = _hashes_in(old), _hashes_in(new)
    return tuple(
        Drift(f"package `{package}`", "~", f"content of {file}")
        for package, file in sorted(before)
        if after.get((package, file), before[package, file]) != before[package, file]
    )


def _hashes_in(packages: Sequence[Package]) -> dict[tuple[str, str], Any]:
    """The hashes of each archive, by its package and its name."""
    found = {}
    for package in packages:
        for archive in (*package.get("wheels", ()), package.get("sdist"), package.get("archive")):
            if archive is not None:
                name = str(archive.get("name") or archive.get("url") or archive.get("path") or "")
                found[str(package["name"]), name.rpartition("/")[2]] = archive.get("hashes")
    return found


def _plugins(old: Lock, new: Lock) -> Iterator[Drift]:
    for name, profile in _pairs((*old.plugins, *new.plugins)):
        before, after = old.plugin(name, profile), new.plugin(name, profile)
        if after is None:
            yield Drift(f"plugin `{name}`", "-", _GONE)
            continue
        yield from compare_sources(name, before, after)
        yield from compare_plugin(name, before or PluginFacts(name, ()), after)


def _servers(old: Lock, new: Lock) -> Iterator[Drift]:
    for name, profile in _pairs((*old.servers, *new.servers)):
        before, after = old.server(name, profile), new.server(name, profile)
        if after is None:
            yield Drift(f"server `{name}`", "-", _GONE)
            continue
        yield from compare_definitions(name, before, after.definition)
        yield from compare_server(name, before, after.tools)


def _packages(old: Lock, new: Lock) -> Iterator[Drift]:
    for name in sorted({*old.packages, *new.packages}):
        before, after = old.packages.get(name), new.packages.get(name)
        if before is not None and after is None:
            yield Drift(f"package `{name}`", "-", "it is not needed, or not installed, any more", before.version)
        elif before is not None:
            yield from compare_package(name, before, after)
        elif after is not None:
            yield Drift(f"package `{name}`", "+", "version", after=after.version)


def _pairs(entries: Iterable[PluginFacts | ServerFacts]) -> list[tuple[str, str]]:
    return sorted({(one.name, profile) for one in entries for profile in one.profiles})
