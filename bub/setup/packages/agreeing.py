"""Showing a person what packages bring, asking, trying their plugins, and moving the packages into place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from bub.agent.local.installers import Workplace
from bub.asking import Telling
from bub.errors import BubError
from bub.setup.packages.distributions import Distribution
from bub.setup.packages.environment import Environment
from bub.setup.packages.review import review
from bub.setup.packages.trial import try_plugins
from bub.setup.packages.unpacked import Unpacked, watching
from bub.setup.packages.workplace import move, plan_moves

__all__ = ["Consent", "Request", "agree", "files_of", "install"]


_OF_THE_BRIDGE = frozenset({"load_state", "provide_tools"})
"""Hook points that Bub itself adds to a plugin on asyncio, for what that registers; its tools have names."""


class Consent(Telling, Protocol):
    """Who hears what packages bring, and says yes or no."""

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


def agree(
    unpacked: Unpacked, workplace: Workplace, request: Request, person: Consent, changes: Sequence[str] = ()
) -> bool:
    """Show what packages bring, ask, then load their plugins in a process of their own, and ask about what is new.

    `changes` is what is shown instead, if they take the place of others. Raises BubError if a plugin cannot be loaded.
    """
    versions, names = request.environment.versions(), unpacked.names
    shown = review(unpacked.offers, unpacked.packages, versions, unpacked.size, changes)
    person.say("\n".join(shown))
    if request.only_shows:
        return False
    if not person.confirm("plugins.install", f"Install {names}?"):
        person.say("nothing was installed")
        return False
    if not unpacked.runtimes:
        return True
    with person.progress(f"loading {names}") as show:
        watch = watching(show, f"loading {names}")
        found = try_plugins(unpacked.runtimes, request.environment, workplace, watch)
    if found.problem:
        problem = f"{names} was not installed, because it does not load: {found.problem}"
        raise BubError(problem, help="tell its author, or correct what the message names; the environment is as it was")
    said, on_asyncio = [offer.code for offer in unpacked.offers], any(unpacked.runtimes.values())
    more = [
        *(
            f"the hook point {name}"
            for name in found.hooks
            if not any(name in code.hooks for code in said) and not (on_asyncio and name in _OF_THE_BRIDGE)
        ),
        *(f"the tool {name}" for name in found.tools if not any(name in code.tools for code in said)),
    ]
    if more:
        person.say(f"Once loaded, it brings more than its code shows: {', '.join(more)}")
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
