"""Installing again what was added, and newer versions of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import msgspec

from bub.base.diagnostics import did_you_mean
from bub.errors import UsageError
from bub.plugins.installed.added import Added, find_lost, read_added
from bub.setup.packages.adding import fetch
from bub.setup.packages.agreeing import Consent, Request, agree, install
from bub.setup.packages.installer import Installer
from bub.setup.packages.offer import Offer, offer_of
from bub.setup.packages.record import record, update_added, wheel_of, without
from bub.setup.packages.requirements import canonical
from bub.setup.packages.review import describe_labels
from bub.setup.packages.sources import read_source
from bub.setup.packages.unpacked import Unpacked, check_early, find_roots, unpack, watching
from bub.setup.packages.workplace import work_in

__all__ = ["choose", "sync", "update"]


def choose(added: Sequence[Added], names: Sequence[str]) -> list[Added]:
    """Return the packages of these names, or that bring plugins of these names; all of them without a name.

    Raises UsageError for a name that none has.
    """
    chosen = []
    for name in names:
        found = [one for one in added if one.key == canonical(name) or name in one.plugins]
        if not found:
            known = [one.name for one in added]
            there = f"there are {', '.join(known)}" if known else "nothing was added to this environment"
            raise UsageError(f"no package `{name}` was added", help=did_you_mean(name, known) or there)
        chosen += [one for one in found if one not in chosen]
    return chosen if names else list(added)


# What is gone


def sync(names: Sequence[str], request: Request, person: Consent) -> bool:
    """Install packages again that were added and are missing: just the same files.

    Returns whether something was installed. Raises UsageError for a name that was never added, BubError if it cannot be
    done; the environment then is as it was.
    """
    environment, prefix = request.environment, str(request.environment.prefix)
    versions = environment.versions()
    lost = find_lost(choose(read_added(request.home), names), prefix, lambda name: versions.get(canonical(name)))
    if not lost:
        with work_in(environment, request.again, person):  # takes back what a process that was killed left
            pass
        person.say("everything that was added is here")
        return False
    with work_in(environment, request.again, person) as workplace:
        roots = {one.key for one in lost}
        pins = {
            pin.key: wheel_of(request.home, pin)
            for one in lost
            for pin in one.packages
            if pin.key in roots or pin.key not in versions
        }
        with person.progress("fetching") as show:
            installer = Installer(environment, workplace, watching(show, "fetching", workplace), request.builds)
            unpacked = unpack(installer, list(pins.values()), [one.key for one in lost])
        if not agree(unpacked, workplace, request, person):
            return False
        install(unpacked, environment, workplace)
    moved = [msgspec.structs.replace(one, environment=prefix) for one in lost]
    update_added(request.home, lambda old: [*without(without(old, lost), moved), *moved])
    person.say(f"installed {', '.join(f'{one.name} {one.version}' for one in lost)}")
    return True


# What is newer


def update(names: Sequence[str], request: Request, person: Consent) -> bool:
    """Install newer versions of what was added, after showing what changes. Returns whether something was installed.

    Raises as `sync` does.
    """
    prefix = str(request.environment.prefix)
    chosen = choose([one for one in read_added(request.home) if one.environment == prefix], names)
    is_changed = False
    for one in chosen:
        is_changed |= _update(one, request, person)
    if not chosen:
        person.say("nothing was added to this environment")
    return is_changed


def _update(added: Added, request: Request, person: Consent) -> bool:
    environment = request.environment
    source = read_source(added.source, Path("/"))
    check_early([source], builds=request.builds)
    with work_in(environment, request.again, person) as workplace:
        installer = Installer(environment, workplace, builds=request.builds)
        roots = find_roots([source], installer, person, person.confirm)
        if roots is None:
            return False
        unpacked = fetch(roots, environment, workplace, request, person, upgrade=True)
        if _is_same(added, unpacked):
            person.say(f"{added.name} {added.version} is the newest")
            return False
        versions = environment.versions()
        changes = list(_describe_changes(added, unpacked, request))
        if not agree(unpacked, workplace, request, person, changes):
            return False
        install(unpacked, environment, workplace)
        record(request.home, roots, unpacked, environment, versions)
    person.say(f"installed {unpacked.names} {unpacked.offers[0].package.version}")
    return True


def _is_same(added: Added, unpacked: Unpacked) -> bool:
    old, new = added.packages[0], unpacked.pins[0]
    return old.version == new.version and bool(set(old.hashes) & set(new.hashes))


def _describe_changes(added: Added, unpacked: Unpacked, request: Request) -> Iterator[str]:
    """What changes for somebody who has the older package."""
    environment, new = request.environment, unpacked.offers[0]
    installed = environment.installed().get(added.key)
    yield f"{added.name} {added.version} → {new.package.version}"
    if installed is None:
        return
    old = offer_of(installed, environment.prefix, environment)
    for what, before, after in (
        ("plugins", _plugins(old), _plugins(new)),
        ("labels", _labels(old), _labels(new)),
        ("settings", _settings(old), _settings(new)),
        ("pipelines", set(old.pipelines), set(new.pipelines)),
        ("hook points in its code", old.code.hooks, new.code.hooks),
        ("tools in its code", old.code.tools, new.code.tools),
        ("requirements", set(old.package.about.requires), set(new.package.about.requires)),
        ("commands on the PATH", set(old.scripts), set(new.scripts)),
        ("RUN AT EACH START of Python in this environment", set(old.at_start), set(new.at_start)),
    ):
        yield from _describe_change(what, before, after)


def _describe_change(what: str, before: Collection[str], after: Collection[str]) -> Iterator[str]:
    new, gone = sorted(set(after) - set(before)), sorted(set(before) - set(after))
    if new:
        yield f"  {what}: new: {', '.join(new)}"
    if gone:
        yield f"  {what}: gone: {', '.join(gone)}"


def _plugins(offer: Offer) -> set[str]:
    return {f"{plugin.name} ({plugin.value})" for plugin in offer.plugins}


def _labels(offer: Offer) -> set[str]:
    said = [describe_labels(plugin.labels) for plugin in offer.plugins if plugin.labels is not None]
    return {f"{plugin.name} declares none" for plugin in offer.plugins if plugin.labels is None} | set(said)


def _settings(offer: Offer) -> set[str]:
    return {f"{plugin.name}.{name}" for plugin in offer.plugins for name in plugin.settings}
