"""From what somebody typed to packages that lie unpacked beside the environment, looked at and not yet installed."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from bub.agent.local.installers import Watch, Workplace, run_installer
from bub.asking import Telling
from bub.errors import BubError, UsageError
from bub.plugins.installed.added import Pin
from bub.setup.packages.distributions import Distribution, read_distribution
from bub.setup.packages.installer import Installer
from bub.setup.packages.offer import Offer, offer_of, refuse_packages
from bub.setup.packages.requirements import name_in
from bub.setup.packages.sources import Source, read_project, read_wheel, refuse_bub, require_python
from bub.setup.packages.workplace import STAGE

__all__ = ["Root", "Unpacked", "check_early", "find_roots", "unpack", "watching"]


class Root(msgspec.Struct, frozen=True):
    """A package that was asked for: the requirement that installers get, its name, what it needs if that is known.

    `source` is what was typed, paths in full; `commit` is what was taken of a repository.
    """

    requirement: str
    name: str
    source: str
    needs: tuple[str, ...] = ()
    commit: str = ""


class Unpacked(msgspec.Struct, frozen=True):
    """Packages in the stage of a workplace: all of them by name, the pins they came from, and what the roots offer.

    `size` is how many bytes all of it takes.
    """

    packages: Mapping[str, Distribution]
    pins: tuple[Pin, ...]
    offers: tuple[Offer, ...]
    size: int

    @property
    def names(self) -> str:
        """The roots' names, for a sentence."""
        return ", ".join(offer.package.about.name for offer in self.offers)

    @property
    def runtimes(self) -> Mapping[str, str]:
        """The plugins, each with the loop that it needs; "" is Bub's own."""
        return {plugin.name: offer.runtime for offer in self.offers for plugin in offer.plugins}


def check_early(sources: Sequence[Source], *, builds: bool) -> None:
    """Raise what can be known before anything is fetched: another Python is needed, or the code of a package runs."""
    for source in sources:
        if source.kind == "wheel":
            about = read_wheel(source.path)
            refuse_bub(about.name)
            require_python(about.name, about.requires_python)
        elif source.kind == "folder":
            _check_project(source.path)
        if source.is_built and not builds:
            problem = f"{source.text} has to be built, and that runs its code before you can see what it brings"
            raise UsageError(problem, help="look at the code, then say --build; or name a wheel")


def find_roots(
    sources: Sequence[Source], installer: Installer, tell: Telling, confirm: Callable[[str, str], bool]
) -> list[Root] | None:
    """Make of each source what installers understand; folders and repositories are built, if a person says yes.

    None if they say no. Raises BubError if one cannot be fetched, read or built.
    """
    roots = []
    for source in sources:
        match source.kind:
            case "name":
                roots.append(Root(source.text, name_in(source.text), source.text))
            case "wheel":
                roots.append(_root_of(source.path, str(source.path)))
            case _:
                built = _build(source, installer, tell, confirm)
                if built is None:
                    return None
                roots.append(built)
    return roots


def _root_of(wheel: Path, source: str, commit: str = "") -> Root:
    about = read_wheel(wheel)
    refuse_bub(about.name)
    return Root(f"{about.name} @ {wheel.as_uri()}", about.key, source, about.requires, commit)


def _build(source: Source, installer: Installer, tell: Telling, confirm: Callable[[str, str], bool]) -> Root | None:
    folder, said, commit = source.path, str(source.path), ""
    if source.kind == "git":
        with tell.progress(f"fetching {source.url}") as show:
            watched = msgspec.structs.replace(installer, watch=watching(show, f"fetching {source.url}"))
            checkout, commit = _clone(source, watched)
        folder, said = checkout / source.below, source.text
    name = _check_project(folder)
    builder = _backend(folder)
    tell.say(f"To install {name}, a wheel of it is built first: that runs `{builder}`, and may run code in {said}.")
    if not confirm("plugins.build", f"Build {name}?"):
        return None
    with tell.progress(f"building {name}") as show:
        wheel = msgspec.structs.replace(installer, watch=watching(show, f"building {name}")).build(folder, name)
    return _root_of(wheel, said, commit)


def _check_project(folder: Path) -> str:
    """Return what a folder calls its package. Raises BubError if that is not for this Python."""
    project = read_project(folder).get("project", {})
    name = str(project.get("name") or folder.name)
    refuse_bub(name)
    require_python(name, str(project.get("requires-python") or ""))
    return name


def _backend(folder: Path) -> str:
    return str(read_project(folder).get("build-system", {}).get("build-backend") or "setuptools")


def _clone(source: Source, installer: Installer) -> tuple[Path, str]:
    """Fetch a repository, and return its folder and the commit; hooks and submodules of it are left alone."""
    git = shutil.which("git")
    if git is None or not os.path.isabs(git):  # noqa: PTH117 (one that lies in the current folder is not meant)
        raise BubError("there is no git to fetch a repository with", help="install git, or name a wheel")
    workplace, checkout = installer.workplace, installer.workplace.folder / "checkout"
    shutil.rmtree(checkout, ignore_errors=True)
    plain = [git, "-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never"]
    steps = [
        [*plain, "clone", "--quiet", "--no-checkout", "--", source.url, str(checkout)],
        [*plain, "-C", str(checkout), "checkout", "--quiet", "--detach", source.ref or "HEAD", "--"],
    ]
    for step in steps:
        code, printed = run_installer(step, workplace, installer.watch)
        if code != 0:
            said = " / ".join(line.strip() for line in printed.splitlines() if line.strip())[-300:]
            raise BubError(f"{source.text} cannot be fetched: {said}", help="check the address and the network")
    _, commit = run_installer([*plain, "-C", str(checkout), "rev-parse", "HEAD"], workplace, installer.watch)
    return checkout, commit.strip()


def unpack(installer: Installer, pins: Sequence[Pin], roots: Iterable[str]) -> Unpacked:
    """Unpack packages into the stage, and look at them. Raises BubError if they must not be installed."""
    stage = installer.stage(pins)
    environment, names = installer.environment, list(roots)
    site = stage / environment.site.relative_to(environment.prefix)
    found = [read_distribution(folder, stage) for folder in sorted(site.glob("*.dist-info"))]
    packages = {one.key: one for one in found}
    lacking = [pin.name for pin in pins if pin.key not in packages]
    if lacking:
        problem = f"{', '.join(lacking)} was not unpacked into the folder of modules of this environment"
        raise BubError(problem, help="use an environment of its own, as `python -m venv` makes one")
    for one in found:
        require_python(one.about.name, one.about.requires_python)
    refuse_packages(packages, names, stage, environment)
    offers = tuple(offer_of(packages[name], stage, environment) for name in names)
    return Unpacked(packages, tuple(pins), offers, _size_of(stage))


def watching(show: Callable[[str], None], what: str, workplace: Workplace | None = None) -> Watch:
    """Return what says several times a second how long something takes, and how much is unpacked already."""
    begun = time.monotonic()

    def watch() -> None:
        size = _size_of(workplace.folder / STAGE) if workplace is not None else 0
        unpacked = f", {size // 2**20} MB" if size else ""
        show(f"{what}: {time.monotonic() - begun:.0f} s{unpacked}")
        if size > _MOST_BYTES:
            raise BubError(f"{what}: more than {_MOST_BYTES // 2**30} GB", help="nothing was installed")

    return watch


_MOST_BYTES = 20 * 2**30


def _size_of(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 (there are thousands)
            except OSError:
                continue
    return total


def file_of(pin: Pin) -> Path | None:
    """Return the file of a pin that lies on this machine."""
    parts = urlsplit(pin.url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None
