"""What a lock accepts that it did not accept before: packages, plugins and servers that are others now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bub.base.diagnostics import Place
from bub.base.locate import lock_of
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.ways.servers import servers_in
from bub.pipeline.show.differences.changes import Changes
from bub.pipeline.source.merge import Document
from bub.plugins.lock.drift import (
    Drift,
    compare_definitions,
    compare_package,
    compare_plugin,
    compare_server,
    compare_sources,
)
from bub.plugins.lock.facts import Lock
from bub.plugins.lock.reading import LockError, parse_lock


def compare(old: Plan, new: Plan, changes: Changes) -> None:
    """Tell what a start accepts now and refused before. Locks that cannot be read are compared with none."""
    before, after = _lock_beside(old.document), _lock_beside(new.document)
    if before is None and after is None:
        return
    place = Place(lock_of(Path(new.document.file)).name if after is not None else new.document.file)
    if before is None:
        message = "Bub starts only with the plugins, packages and servers that the lock describes"
        changes.add("code.locked", message, "lock", place)
    elif after is None:
        message = "there is no lock any more: Bub starts with any plugins, packages and servers"
        changes.add("code.unlocked", message, "lock", place, danger=True)
    else:
        for drift in dict.fromkeys(_drifts(old, new, before, after)):
            danger = drift.sign != "-"
            message = f"the lock accepts a change of {drift.subject}: {drift.line}"
            changes.add("code.accepted", message, "lock", place, danger=danger)


def _drifts(old: Plan, new: Plan, before: Lock, after: Lock) -> Iterator[Drift]:
    """Find what differs of plugins and servers that both sides name; of what is added, others tell."""
    for name in _both(dict(old.allowlist), dict(new.allowlist)):
        was, now = before.plugin(name, old.profile), after.plugin(name, new.profile)
        if was is not None and now is not None:
            yield from (*compare_sources(name, was, now), *compare_plugin(name, was, now))
    for name in _both(dict(servers_in(old.root)), dict(servers_in(new.root))):
        locked, offered = before.server(name, old.profile), after.server(name, new.profile)
        if locked is not None and offered is not None:
            yield from compare_definitions(name, locked, offered.definition)
            yield from compare_server(name, locked, offered.tools)
    for name in _both(before.packages, after.packages):
        yield from compare_package(name, before.packages[name], after.packages[name])


def _both(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return sorted(one.keys() & other.keys())


def _lock_beside(document: Document) -> Lock | None:
    """The lock where a document was read: on the disk, or in a revision of git."""
    if document.base is None or not document.layers or document.layers[-1].shipped:
        return None
    file = lock_of(document.base / Path(document.file.removeprefix(document.tree.prefix)).name)
    try:
        return parse_lock(document.tree.read(file), file)
    except (OSError, ValueError, LockError):
        return None
