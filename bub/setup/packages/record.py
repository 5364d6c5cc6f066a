"""Writing down what was added, in Bub's own folder: enough to install exactly that again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from bub.base.private import lock_file, make_private, open_private
from bub.base.rewrite import write_private
from bub.plugins.installed.added import FILE, VERSION, Added, Pin, Record, read_added
from bub.setup.packages.distributions import Distribution
from bub.setup.packages.environment import Environment
from bub.setup.packages.requirements import name_in
from bub.setup.packages.unpacked import Root, Unpacked, file_of

__all__ = ["keep_wheel", "needed_for", "record", "update_added", "wheel_of", "without"]

_WHEELS, _LOCK = "plugins/wheels", "plugins/lock"


def update_added(home: Path, change: Callable[[Sequence[Added]], Sequence[Added]]) -> None:
    """Write what `change` makes of what was added, and remove the wheels that nothing needs any more."""
    make_private(home / "plugins")
    lock = open_private(home / _LOCK)
    try:
        lock_file(lock)
        path = home / FILE
        added = tuple(change(read_added(home)))
        old = path.read_bytes() if path.exists() else None
        new = msgspec.json.format(msgspec.json.encode(Record(VERSION, added)), indent=2) + b"\n"
        if new != old:
            write_private(path, old, new)
        needed = {pin.url for one in added for pin in one.packages}
        for wheel in (home / _WHEELS).glob("*/*.whl"):
            if wheel.relative_to(home / _WHEELS).as_posix() not in needed:
                shutil.rmtree(wheel.parent, ignore_errors=True)
    finally:
        os.close(lock)


def keep_wheel(home: Path, wheel: Path, hash_of_it: str) -> str:
    """Keep a wheel that no index has in Bub's own folder; return its path among those that are kept."""
    place = f"{hash_of_it.removeprefix('sha256:')[:16]}/{wheel.name}"
    make_private((home / _WHEELS / place).parent)
    shutil.copyfile(wheel, home / _WHEELS / place)
    return place


def wheel_of(home: Path, pin: Pin) -> Pin:
    """Return a pin whose wheel is kept with the address of that."""
    if not pin.url or "://" in pin.url:
        return pin
    return msgspec.structs.replace(pin, url=(home / _WHEELS / pin.url).as_uri())


def record(
    home: Path, roots: Sequence[Root], unpacked: Unpacked, environment: Environment, before: Mapping[str, str]
) -> None:
    """Write down packages that were just installed; `before` is what was there, by name with its version."""
    prefix = str(environment.prefix)
    here = [one for one in read_added(home) if one.environment == prefix]
    known = {pin.key: pin for one in here for pin in one.packages}
    known.update({pin.key: _keep_wheel_of(home, pin) for pin in unpacked.pins})
    brought = {name for one in here for name in one.brought} | (set(unpacked.packages) - set(before))
    installed = environment.installed()
    added = []
    for root, offer in zip(roots, unpacked.offers, strict=True):
        names = needed_for(root.name, installed)
        added.append(
            Added(
                offer.package.about.name,
                offer.package.version,
                root.source,
                prefix,
                tuple(plugin.name for plugin in offer.plugins),
                tuple(known[name] for name in names if name in known),
                tuple(name for name in names if name in brought),
                root.commit,
            )
        )
    update_added(home, lambda old: [*without(old, added), *added])


def without(added: Sequence[Added], others: Sequence[Added]) -> list[Added]:
    """Return what was added except the packages of the same names in the same environments."""
    gone = {(one.key, one.environment) for one in others}
    return [one for one in added if (one.key, one.environment) not in gone]


def needed_for(name: str, installed: Mapping[str, Distribution]) -> list[str]:
    """Return a package and whatever it needs, and so on, of what is installed; itself first."""
    found: dict[str, None] = {}
    waiting = [name]
    while waiting:
        one = waiting.pop(0)
        if one in installed and one not in found:
            found[one] = None
            waiting += [name_in(requirement) for requirement in installed[one].about.requires]
    return list(found)


def _keep_wheel_of(home: Path, pin: Pin) -> Pin:
    """A pin whose wheel is found again: one that lies on this machine may be moved or removed, so it is kept."""
    file = file_of(pin)
    return msgspec.structs.replace(pin, url=keep_wheel(home, file, pin.hashes[0])) if file is not None else pin
