"""What a lock is to hold: facts of what is installed and loaded, for every profile of a pipeline file."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, requires
from types import MappingProxyType
from typing import TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from bub.base.diagnostics import did_you_mean
from bub.base.other_bub import OURS
from bub.errors import UsageError
from bub.pipeline.check.locked.stale import definition_of, servers_of
from bub.plugins.finding import installed_plugins
from bub.plugins.lock.facts import Lock, PluginFacts, ServerFacts, ToolFacts
from bub.plugins.lock.installed import Installed, canonical, package_facts
from bub.runtime.bootstrap import provide_channels
from bub.runtime.locked.facts import facts_of
from bub.runtime.snapshot import Profile
from bub.setup.locking.resolving import Package


class Found(msgspec.Struct, frozen=True):
    """What was found to lock: the `lock` without its packages, and the packages that bring the plugins."""

    lock: Lock
    wanted: frozenset[str]


Tools: TypeAlias = Mapping[tuple[str, str], Mapping[str, ToolFacts]]
"""The tools of servers by profile and server; nothing of one that a profile allows no tool of."""


def look_at_profiles(profiles: Iterable[Profile], tools: Tools = MappingProxyType({})) -> Found:
    """Find what the plugins of loaded profiles bring, and their servers, whose `tools` were listed.

    A plugin that brings the same in several profiles is one entry.
    """
    plugins: list[PluginFacts] = []
    servers: list[ServerFacts] = []
    packages = {name: canonical(entry.dist.name) for name, entry in installed_plugins().items() if entry.dist}
    for profile in profiles:
        channels = provide_channels(profile, _take_nothing)
        facts = facts_of(profile, [(plugin, name) for name, (plugin, _) in channels.items()])
        for name, _ in profile.plan.allowlist:
            found = facts.get(name) or PluginFacts(name, (profile.name,))  # optional, and not there
            plugins.append(found if found.file or name not in facts else replace(found, package=packages.get(name, "")))
        for name, node in servers_of(profile.plan):
            offered = dict(sorted(tools.get((profile.name, name), {}).items()))
            servers.append(ServerFacts(name, (profile.name,), definition_of(node), offered))
    lock = Lock(plugins=tuple(_merge(plugins)), servers=tuple(_merge(servers)))
    return Found(lock, frozenset((OURS, *(one.package for one in lock.plugins if one.package))))


def with_packages(found: Found, names: Iterable[str], installed: Mapping[str, Installed]) -> Lock:
    """Add what is known of installed packages to a lock; those that no plugin needs on this system are left out."""
    inside = {one.package for one in found.lock.plugins} - {OURS}
    there = sorted({name for name in names if name in installed} | {name for name in found.wanted if name in installed})
    facts = {name: package_facts(installed[name], look_inside=name in inside) for name in there}
    return replace(found.lock, packages=facts)


def upgrade(
    old: Lock, new: Lock, archives: tuple[Sequence[Package], Sequence[Package]], name: str
) -> tuple[Lock, list[Package]]:
    """Take into an old lock what a new one says of one plugin, server or package, and nothing else.

    With a plugin go its package and what that needs. `archives` are the old and the new entries of `[[packages]]`;
    those that hold now are returned, too. Raises `UsageError` if there is nothing of that name.
    """
    entries: tuple[PluginFacts | ServerFacts, ...] = (*old.plugins, *new.plugins, *old.servers, *new.servers)
    known = {*(one.name for one in entries), *new.packages, *old.packages}
    if name not in known:
        raise UsageError(f"the lock knows no `{name}`", help=did_you_mean(name, known) or "name a plugin or a server")
    brought = {one.package for one in (*old.plugins, *new.plugins) if one.name == name and one.package}
    chosen = needs_of({*brought, *({name} & {*new.packages, *old.packages})} - {OURS})
    lock = Lock(
        packages=_choose(old.packages, new.packages, chosen),
        plugins=_take(old.plugins, new.plugins, name),
        servers=_take(old.servers, new.servers, name),
    )
    before, after = ({str(one["name"]): one for one in each} for each in archives)
    return lock, list(_choose(before, after, chosen).values())


def needs_of(names: Iterable[str]) -> frozenset[str]:
    """Return packages with all that they need, as far as that is installed."""
    found, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            try:
                needed = requires(name) or ()
            except PackageNotFoundError:
                continue
            always = (one for one in needed if re.search(r"\bextra\s*==", one) is None)
            waiting += [canonical(re.split(r"[^\w.-]", one, maxsplit=1)[0]) for one in always]
    return frozenset(found)


_Entry = TypeVar("_Entry", bound=PluginFacts | ServerFacts)
_Value = TypeVar("_Value")


def _merge(entries: Iterable[_Entry]) -> list[_Entry]:
    """Make one entry of those that differ in their profile only."""
    alike: dict[bytes, list[_Entry]] = {}
    for one in entries:
        alike.setdefault(msgspec.json.encode(replace(one, profiles=())), []).append(one)
    merged = [replace(same[0], profiles=tuple(sorted({one.profiles[0] for one in same}))) for same in alike.values()]
    return _sorted(merged)


def _sorted(entries: Iterable[_Entry]) -> list[_Entry]:
    return sorted(entries, key=lambda one: (one.name, one.profiles))


def _take(old: Iterable[_Entry], new: Iterable[_Entry], name: str) -> tuple[_Entry, ...]:
    """Take the entries of one name from the new, and all others from the old."""
    entries = [*(one for one in old if one.name != name), *(one for one in new if one.name == name)]
    return tuple(_sorted(entries))


def _choose(old: Mapping[str, _Value], new: Mapping[str, _Value], chosen: Container[str]) -> dict[str, _Value]:
    """Take what is chosen from the new, and all else from the old."""
    kept = {name: value for name, value in old.items() if name not in chosen}
    taken = {name: value for name, value in new.items() if name in chosen}
    return dict(sorted({**kept, **taken}.items()))


async def _take_nothing(message: object) -> None:
    """Takes the messages of channels that are only looked at."""
