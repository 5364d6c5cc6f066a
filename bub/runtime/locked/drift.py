"""Refusing what is not as the lock says: packages before anything of them runs, plugins once they are loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from bub.base.diagnostics import Diagnostic, Findings, PipelineError
from bub.base.other_bub import OURS
from bub.pipeline.check.locked.stale import STALE, tell_drift
from bub.pipeline.plan.plan import Plan
from bub.plugins.lock.drift import Drift, compare_package, compare_plugin
from bub.plugins.lock.facts import Lock
from bub.plugins.lock.installed import find_installed, package_facts
from bub.runtime.locked.facts import facts_of
from bub.runtime.snapshot import Profile


def require_locked(lock: Lock, plans: Sequence[Plan], findings: Iterable[Diagnostic]) -> None:
    """Raise `PipelineError` if a package, a plugin's file or what a file says is not as it was locked.

    Nothing of any plugin has been imported then. `findings` are what else is known to be wrong.
    """
    drifted = Findings()
    for name, drifts in package_drift(lock).items():
        plan = plans[0]
        bringing = {one.name for one in lock.plugins if one.package == name}
        place = next((place for plugin, place in plan.allowlist if plugin in bringing), plan.root.place)
        tell_drift(drifted, plan, name, drifts, place)
    stale = [item for plan in plans for item in plan.findings.items if item.code == STALE]
    if drifted.items or stale:
        raise PipelineError([*findings, *drifted.items, *stale])


def package_drift(lock: Lock) -> Mapping[str, Sequence[Drift]]:
    """Find which installed packages are not those of a lock, and how they differ, by name."""
    installed = find_installed()
    inside = {one.package for one in lock.plugins if one.package} - {OURS}
    drifted = {}
    for name, locked in lock.packages.items():
        there = installed.get(name)
        found = package_facts(there, look_inside=name in inside) if there is not None else None
        if drifts := compare_package(name, locked, found):
            drifted[name] = drifts
    return drifted


def require_same(lock: Lock, profile: Profile) -> None:
    """Raise `PipelineError` if a loaded plugin brings other hook points or tools than it did when it was locked."""
    findings, facts = Findings(), facts_of(profile)
    for name, _ in profile.plan.allowlist:
        locked, found = lock.plugin(name, profile.name), facts.get(name)
        if locked is not None and found is not None:
            # Channels are asked for when they are needed.
            _tell(findings, profile, name, compare_plugin(name, locked, replace(found, channels=locked.channels)))
        elif locked is not None and locked.hooks:
            _tell(findings, profile, name, [Drift(f"plugin `{name}`", "-", "it is not there")])
    if findings.items:
        raise PipelineError(findings.items)


def find_channel_drift(profile: Profile, channels: Iterable[tuple[str, str]]) -> tuple[Diagnostic, ...]:
    """Find which plugins bring other channels than when they were locked; each channel is behind its plugin."""
    findings = Findings()
    if profile.lock is not None:
        for name, found in facts_of(profile, channels).items():
            locked = profile.lock.plugin(name, profile.name)
            if locked is not None:
                same = replace(found, hooks=locked.hooks, tools=locked.tools)
                _tell(findings, profile, name, compare_plugin(name, locked, same))
    return tuple(findings.items)


def _tell(findings: Findings, profile: Profile, name: str, drifts: Iterable[Drift]) -> None:
    place = next(place for plugin, place in profile.plan.allowlist if plugin == name)
    tell_drift(findings, profile.plan, name, drifts, place, f"profiles.{profile.name}.plugins")
