"""Adding packages with plugins: looked at, agreed to, tried, installed whole or not at all, and recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from bub.agent.local.installers import Workplace
from bub.asking import Telling
from bub.errors import BubError
from bub.setup.packages.distributions import Distribution
from bub.setup.packages.environment import Environment
from bub.setup.packages.installer import Installer, Pin
from bub.setup.packages.record import Added, keep_wheel, read_added, update_added
from bub.setup.packages.requirements import name_in
from bub.setup.packages.review import review
from bub.setup.packages.sources import read_source
from bub.setup.packages.trial import try_plugins
from bub.setup.packages.unpacked import Root, Unpacked, check_early, file_of, find_roots, unpack, watching
from bub.setup.packages.workplace import move, plan_moves, work_in

__all__ = ["Consent", "Request", "add", "agree", "install"]


class Consent(Telling, Protocol):
    """Who is told what packages bring, and says yes or no."""

    def confirm(self, name: str, title: str) -> bool:
        """Yes or no; no is what silence means."""


class Request(msgspec.Struct, frozen=True):
    """How packages are to be installed: Bub's own folder, the environment, the command that does it, what it may do.

    `builds`: a package without a wheel is built. `only_shows`: what would be installed is shown, and no more.
    """

    home: Path
    environment: Environment
    again: str
    builds: bool = False
    only_shows: bool = False


def add(texts: Sequence[str], folder: Path, request: Request, person: Consent) -> Mapping[str, str] | None:
    """Install the packages that somebody typed; paths are relative to `folder`.

    Returns the plugins that they bring, each with the loop that it needs ("" is Bub's own); None if nothing was to be
    installed, or a person said no. Raises BubError that says why it failed and what to do; the environment then is as
    it was.
    """
    sources = [read_source(text, folder) for text in texts]
    check_early(sources, builds=request.builds)
    environment = request.environment
    with work_in(environment, request.again, person) as workplace:
        with person.progress("looking") as show:
            installer = Installer(environment, workplace, watching(show, "fetching"), request.builds)
            roots = find_roots(sources, installer, person, person.confirm)
        if roots is None:
            return None
        unpacked = _fetch(roots, environment, workplace, request, person)
        if not agree(unpacked, environment, workplace, request, person):
            return None
        install(unpacked, environment, workplace)
        _remember(request.home, roots, unpacked, environment)
    for offer in unpacked.offers:
        person.say(f"installed {offer.package.about.name} {offer.package.version}")
    return unpacked.runtimes


def _fetch(
    roots: Sequence[Root], environment: Environment, workplace: Workplace, request: Request, tell: Telling
) -> Unpacked:
    names = [root.name for root in roots]
    what = ", ".join(names)
    with tell.progress(f"finding out what {what} needs") as show:
        watch = watching(show, f"fetching {what}", workplace)
        installer = Installer(environment, workplace, watch, request.builds)
        needed = [one for root in roots for one in root.needs]
        pins = installer.resolve([root.requirement for root in roots], needed, environment.constraints(names))
        return unpack(installer, pins, names)


def agree(
    unpacked: Unpacked, environment: Environment, workplace: Workplace, request: Request, person: Consent
) -> bool:
    """Show what packages bring, ask, then load their plugins in a process of their own, and ask about what is new.

    Raises BubError if a plugin cannot be loaded.
    """
    versions = environment.versions()
    person.say("\n".join(review(unpacked.offers, unpacked.packages, versions, unpacked.size)))
    if request.only_shows:
        return False
    names = ", ".join(offer.package.about.name for offer in unpacked.offers)
    if not person.confirm("plugins.add", f"Install {names}?"):
        person.say("nothing was installed")
        return False
    if not unpacked.runtimes:
        return True
    with person.progress(f"loading {names}") as show:
        found = try_plugins(unpacked.runtimes, environment, workplace, watching(show, f"loading {names}"))
    if found.problem:
        problem = f"{names} was not installed, since it does not load: {found.problem}"
        raise BubError(problem, help="tell whoever made it, or correct what it says")
    said = [offer.code for offer in unpacked.offers]
    more = [
        *(f"the hook point {name}" for name in found.hooks if not any(name in code.hooks for code in said)),
        *(f"the tool {name}" for name in found.tools if not any(name in code.tools for code in said)),
    ]
    if more:
        person.say(f"Once loaded, it brings more than its code tells: {', '.join(more)}")
        if not person.confirm("plugins.more", f"Install {names} all the same?"):
            person.say("nothing was installed")
            return False
    return True


def install(unpacked: Unpacked, environment: Environment, workplace: Workplace) -> None:
    """Move unpacked packages into the environment; those of the same names that are there go out of it."""
    installed = environment.installed()
    out = [path for key in unpacked.packages if key in installed for path in files_of(installed[key], environment)]
    into = [path for package in unpacked.packages.values() for path in package.files]
    move(plan_moves(environment, out, into), environment, workplace.folder)


def files_of(package: Distribution, environment: Environment) -> list[str]:
    """Return the files of an installed package below the prefix, with what Python compiled of its modules."""
    inside = [path for path in package.files if not path.startswith("../") and not Path(path).is_absolute()]
    compiled = [
        found.relative_to(environment.prefix).as_posix()
        for path in inside
        if path.endswith(".py")
        for found in (environment.prefix / path).parent.glob(f"__pycache__/{Path(path).stem}.*.pyc")
    ]
    return [*inside, *compiled]


def _remember(home: Path, roots: Sequence[Root], unpacked: Unpacked, environment: Environment) -> None:
    """Record what was added, so that it can be installed again."""
    kept = [_kept(home, pin) for pin in unpacked.pins]
    known = {
        pin.key: pin for one in read_added(home) if one.environment == str(environment.prefix) for pin in one.packages
    }
    known.update({pin.key: pin for pin in kept})
    installed = environment.installed()
    added = []
    for root, offer in zip(roots, unpacked.offers, strict=True):
        names = needed_for(root.name, installed)
        packages = tuple(known[name] for name in names if name in known)
        plugins = tuple(plugin.name for plugin in offer.plugins)
        version = offer.package.version
        added.append(Added(offer.package.about.name, version, root.source, str(environment.prefix), plugins, packages))
    update_added(home, lambda before: [*_others(before, added), *added])


def _others(before: Iterable[Added], added: Iterable[Added]) -> list[Added]:
    replaced = {(one.packages[0].key, one.environment) for one in added}
    return [one for one in before if (one.packages[0].key, one.environment) not in replaced]


def _kept(home: Path, pin: Pin) -> Pin:
    """A pin whose wheel is found again: one that lies on this machine may be moved or removed, so it is kept."""
    file = file_of(pin)
    return msgspec.structs.replace(pin, url=keep_wheel(home, file, pin.hashes[0])) if file is not None else pin


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
