"""What the commands of `bub plugins` that change something have in common: who is asked, and how it goes on."""

from __future__ import annotations

import importlib
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType

from bub.asking import Query
from bub.base.locate import bub_home
from bub.cli.exits import INTERRUPTED
from bub.cli.onboard import FileChange, set_up
from bub.cli.opening import usual_file
from bub.cli.options import Options
from bub.cli.prompts import can_ask, require_person
from bub.cli.questions import TerminalVoice
from bub.errors import BubError, UsageError
from bub.pipeline.edit.amend import amend
from bub.pipeline.edit.own_file import read_own
from bub.secrets.redactor import Redactor
from bub.setup.packages.agreeing import Request
from bub.setup.packages.environment import Environment
from bub.setup.script import Script
from bub.setup.unlisting import find_listings


class Person(TerminalVoice):
    """Who is asked at the terminal; somebody who said --yes is only told."""

    def __init__(self, *, agrees: bool) -> None:
        self._agrees = agrees

    def confirm(self, name: str, title: str) -> bool:
        """Ask; no is the default."""
        return self._agrees or bool(self.put(Query(name, "confirm", title, False)))


def person_for(*, yes: bool, dry_run: bool, build: bool = False) -> Person:
    """Return who is asked. Raises UsageError if that is a process that Bub started, or nobody."""
    signal.signal(signal.SIGTERM, _unwind)
    if not dry_run or build:  # to build is to run code, whatever comes of it
        require_person()
        if not yes and not can_ask():
            raise UsageError(
                "there is no terminal to ask questions at", help="first look with --dry-run, then say --yes"
            )
    return Person(agrees=yes)


@contextmanager
def nothing_half(note: str) -> Iterator[None]:
    """Let a Ctrl-C say what it left behind, in a `note`."""
    try:
        yield
    except KeyboardInterrupt as stop:
        stop.add_note(note)
        raise


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


def unlist_plugins(options: Options, plugins: Sequence[str], person: Person) -> None:
    """Take plugins that were just removed off the lists of the file that a run would use, if a person says yes."""
    file = usual_file(options)
    if file is None:
        return
    own = read_own(file, even_broken=True)
    changes = find_listings(own.text, plugins, file=own.file, base=own.path.parent)
    if not changes:
        return
    change = FileChange(own, amend(own.text, changes, file=own.file), {})
    change.show(Redactor(()), sys.stderr)
    if person.confirm("plugins.unlist", f"Write this to {own.file}?"):
        change.write()
    else:
        person.say(f"{own.file} still lists {', '.join(plugins)}")


def _unwind(number: int, frame: FrameType | None) -> None:
    """Take everything back if a supervisor ends the process."""
    raise KeyboardInterrupt
