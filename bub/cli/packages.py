"""What the commands of `bub plugins` that change something have in common: who is asked, and how it goes on."""

from __future__ import annotations

import importlib
import os
import shlex
import signal
from collections.abc import Mapping
from types import FrameType

from bub.asking import Query
from bub.base.locate import bub_home
from bub.cli.exits import INTERRUPTED
from bub.cli.onboard import set_up
from bub.cli.options import Options
from bub.cli.prompts import can_ask, require_person
from bub.cli.questions import TerminalVoice
from bub.errors import BubError, UsageError
from bub.setup.packages.adding import Request
from bub.setup.packages.environment import Environment
from bub.setup.script import Script


class Person(TerminalVoice):
    """Who is asked at the terminal; somebody who said --yes is only told."""

    def __init__(self, *, agrees: bool) -> None:
        self._agrees = agrees

    def confirm(self, name: str, title: str) -> bool:
        """Ask; no is the default."""
        return self._agrees or bool(self.put(Query(name, "confirm", title, False)))


def person_for(*, yes: bool, dry_run: bool) -> Person:
    """Return who is asked. Raises UsageError if that is a process that Bub started, or nobody."""
    signal.signal(signal.SIGTERM, _unwind)
    if not dry_run:
        require_person()
        if not yes and not can_ask():
            raise UsageError(
                "there is no terminal to ask questions at", help="look with --dry-run first, then say --yes"
            )
    return Person(agrees=yes)


def request_for(word: str, names: list[str], *, build: bool = False, dry_run: bool = False) -> Request:
    """Return how packages are to be installed by a command."""
    command = shlex.join(["bub", "plugins", word, *names, *(["--build"] if build else [])])
    return Request(bub_home(os.environ), Environment.here(), f"run `{command}` again", build, dry_run)


def list_plugins(options: Options, plugins: Mapping[str, str], *, yes: bool) -> int:
    """List plugins that were just installed in a profile, and ask what they have to ask."""
    importlib.invalidate_caches()
    tell = TerminalVoice()
    script = Script.of(None, os.environ, tell.say) if yes else None
    later = f"bub onboard {shlex.join(plugins)}"
    try:
        code = set_up(options, list(plugins), script=script, runtimes=plugins)
    except BubError as error:
        raise BubError(
            f"the package is installed, but no profile lists its plugin yet: {error}",
            help=f"{error.help or 'correct that'}; then run `{later}`",
        ) from error
    if code == INTERRUPTED:
        tell.say(f"the package is installed; `{later}` lists its plugin in a profile and sets it up")
    return code


def _unwind(number: int, frame: FrameType | None) -> None:
    """Take everything back if a supervisor ends the process."""
    raise KeyboardInterrupt
