"""From a pipeline file to the lock that it would have now, and what that changes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import trio

from bub.agent import late
from bub.base.failures import unwrap_group
from bub.errors import UsageError
from bub.framework import load_pipeline
from bub.pipeline.check.validate import lock_file, profiles_of
from bub.pipeline.source.merge import Document
from bub.plugins.lock.drift import Drift
from bub.plugins.lock.facts import Lock
from bub.plugins.lock.installed import find_installed
from bub.plugins.lock.reading import lock_in, read_toml
from bub.runtime.snapshot import Profile
from bub.setup.locking.changes import archives_between, changes_between
from bub.setup.locking.making import Found, Tools, look_at_profiles, upgrade, with_packages
from bub.setup.locking.resolving import Package, Resolve
from bub.setup.locking.toml import as_toml


class Proposal(msgspec.Struct, frozen=True):
    """The lock that a pipeline file would have: its `text`, and what that `changes`.

    It `differs` from the lock that is there if a single letter does.
    """

    text: str
    changes: tuple[Drift, ...] = ()
    differs: bool = True


class Old(msgspec.Struct, frozen=True):
    """The lock that is there: what it knows, and its entries of `[[packages]]`."""

    lock: Lock
    packages: Sequence[Package]


def place_of(document: Document) -> Path:
    """Return where the lock of a document is, or shall be. Raises `UsageError` for a pipeline that comes with Bub."""
    file = lock_file(document)
    if file is None:
        raise UsageError(f"{document.file} comes with Bub, and has no lock", help="lock a file of your own")
    return file


def read_old(file: Path) -> Old | None:
    """Read the lock that is there, if there is one. Raises `LockError` if it cannot be read."""
    data = read_toml(file)
    return Old(lock_in(data, file), list(data.get("packages", ()))) if data is not None else None


def look(document: Document, workspace: Path, environ: Mapping[str, str], tell: Callable[[int], None]) -> Found:
    """Load all profiles of a document one by one, and find what their plugins bring; `tell` gets how many are done.

    Servers with a tool that a profile allows are started, and ended again. Raises `PipelineError` for a document that
    does not compile, and `BubError` for a server that cannot be asked.
    """
    snapshots = []
    try:
        for number, profile in enumerate(profiles_of(document)):
            tell(number)
            snapshots.append(
                load_pipeline(
                    document,
                    profile=profile,
                    workspace=workspace,
                    environ=environ,
                    routed=False,
                    elsewhere=True,
                    unlocked=True,
                )
            )
        profiles = [profile for snapshot in snapshots for profile in snapshot.profiles.values()]
        return look_at_profiles(profiles, _look_at_servers(profiles, workspace))
    finally:
        for snapshot in snapshots:
            snapshot.let_go()


def _look_at_servers(profiles: Iterable[Profile], folder: Path) -> Tools:
    specs = {
        (profile.name, spec.name): spec
        for profile in profiles
        for spec in profile.served.specs
        if profile.tools.policy.wants(spec.name)
    }
    if not specs:
        return {}
    try:
        seen = trio.run(late.look_at_servers, list(specs.values()), folder)
    except BaseExceptionGroup as group:
        raise unwrap_group(group) from None
    return {key: one.require().facts for key, one in zip(specs, seen, strict=True)}


def find_changes(old: Old, found: Found) -> tuple[Drift, ...]:
    """Find what has changed since a lock was made; no index is asked."""
    return changes_between(old.lock, with_packages(found, old.lock.packages, find_installed()))


def propose(file: Path, old: Old | None, found: Found, resolve: Resolve, name: str | None = None) -> Proposal:
    """Make the lock of now; if a `name` is given, only what that plugin or server brings is taken over into the old.

    `resolve` finds where packages come from. Raises what it raises, and `UsageError` for a name that is not known.
    """
    installed = find_installed()
    if name is not None and old is None:
        raise UsageError(f"there is no {file.name} yet, so nothing can be taken over", help="make it: `bub lock`")
    packages = resolve(found.wanted, installed)
    new = with_packages(found, (str(one["name"]) for one in packages), installed)
    if name is not None and old is not None:
        new, packages = upgrade(old.lock, new, (old.packages, packages), name)
    text = as_toml(packages, new, f">={sys.version_info.major}.{sys.version_info.minor}")
    if old is None:
        return Proposal(text)
    changes = (*changes_between(old.lock, new), *archives_between(old.packages, packages))
    return Proposal(text, changes, text.encode() != file.read_bytes())
