"""Confining commands with Landlock and seccomp, for machines without bubblewrap: nothing to install, no namespaces."""

from __future__ import annotations

import platform
import subprocess
import sys
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path

from bub.agent.confine.room import Room
from bub.agent.confine.seccomp import is_known_machine, make_filter
from bub.agent.confine.walls import Walls

_ENTER = Path(__file__).with_name("enter.py")
_PATIENCE = 10.0

LEAST = 6
"""The version of Landlock that keeps commands from sending signals to others: Linux 6.12."""


def find_lack() -> str:
    """Say in a clause why Landlock cannot be used here; "" if it can."""
    if sys.platform != "linux":
        return f"{platform.system()} has no Landlock"
    if not is_known_machine():
        return "Bub knows the system calls of x86_64 and aarch64 only"
    version = find_version()
    if version < 1:
        return "the kernel has no Landlock, or it is off"
    return "" if version >= LEAST else f"its Landlock is of version {version}, and {LEAST} is needed (Linux 6.12)"


@cache
def find_version() -> int:
    """The version of Landlock that the kernel has; 0 if it has none."""
    words = [sys.executable, "-I", "-S", str(_ENTER), "version"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_PATIENCE, check=True)
        return int(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0


def find_gap(walls: Walls) -> str:
    """Say in a clause which wall it cannot build: it opens folders whole, without exceptions."""
    for path in walls.exceptions:
        return f"Landlock opens folders whole, and cannot keep {path} from commands"
    return ""


def filter_for(walls: Walls) -> bytes:
    """Return the filter of system calls: Landlock knows neither all sockets nor changes of modes, owners and times."""
    return make_filter(has_namespaces=False, reaches_network=walls.reaches_network)


def furnish(walls: Walls, room: Room) -> None:
    """Make ready what the command is shown."""
    room.link_home(walls)


def begin(walls: Walls, room: Room, cwd: Path, descriptor: int) -> list[str]:
    """Return the words that begin a command in the folder that Bub starts it in; the filter is at `descriptor`."""
    rules = [f"write={path}" for path in (*walls.write, room.temporary, room.home)]
    rules += [f"read={path}" for path in (*walls.read, *walls.programs, *walls.settings)]
    network = [] if walls.reaches_network else ["no-network"]
    return [sys.executable, "-I", "-S", _find_program(), str(descriptor), *network, *rules, "--"]


def _find_program() -> str:
    """The program that begins a command; compiled if Python keeps that, since compiling takes longer than the rest."""
    source, compiled = _ENTER, Path(cache_from_source(_ENTER))
    try:
        is_of_source = compiled.stat().st_mtime >= source.stat().st_mtime
    except OSError:
        is_of_source = False
    return str(compiled if is_of_source else source)


def environment(room: Room) -> dict[str, str]:
    """Return the variables that say where the private folders are."""
    return {"TMPDIR": str(room.temporary), "HOME": str(room.home)}
