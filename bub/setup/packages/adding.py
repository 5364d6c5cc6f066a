"""Adding packages with plugins: looked at, agreed to, tried, installed whole or not at all, and recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bub.agent.local.installers import Workplace
from bub.asking import Telling
from bub.setup.packages.agreeing import Consent, Request, agree, install
from bub.setup.packages.environment import Environment
from bub.setup.packages.installer import Installer
from bub.setup.packages.record import record
from bub.setup.packages.sources import read_source
from bub.setup.packages.unpacked import Root, Unpacked, check_early, find_roots, unpack, watching
from bub.setup.packages.workplace import work_in

__all__ = ["add", "fetch"]


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
        installer = Installer(environment, workplace, builds=request.builds)
        roots = find_roots(sources, installer, person, person.confirm)
        if roots is None:
            return None
        unpacked = fetch(roots, environment, workplace, request, person)
        if not agree(unpacked, workplace, request, person):
            return None
        versions = environment.versions()
        install(unpacked, environment, workplace)
        record(request.home, roots, unpacked, environment, versions)
    for offer in unpacked.offers:
        person.say(f"installed {offer.package.about.name} {offer.package.version}")
    return unpacked.runtimes


def fetch(
    roots: Sequence[Root],
    environment: Environment,
    workplace: Workplace,
    request: Request,
    tell: Telling,
    *,
    upgrade: bool = False,
) -> Unpacked:
    """Find out what packages need, and unpack it beside the environment. Raises BubError."""
    names = [root.name for root in roots]
    what = ", ".join(names)
    with tell.progress(f"finding out what {what} needs") as show:
        watch = watching(show, f"fetching {what}", workplace)
        installer = Installer(environment, workplace, watch, request.builds)
        needed = [one for root in roots for one in root.needs]
        requirements = [root.requirement for root in roots]
        pins = installer.resolve(requirements, needed, environment.constraints(names), upgrade=upgrade)
        return unpack(installer, pins, names)
