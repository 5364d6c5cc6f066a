"""Confining commands with bubblewrap: they see a file system that has nothing else, and processes of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from bub.agent.confine.room import Room
from bub.agent.confine.seccomp import is_known_machine, make_filter
from bub.agent.confine.walls import Walls

PROGRAM = "bwrap"

_PATIENCE = 10.0

_ALONE = (
    *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"),
    *("--cap-drop", "ALL", "--hostname", "confined"),
)
_SYSTEM = ("--proc", "/proc", "--dev", "/dev")

_OF_ROOT = ("acpi", "driver", "fs", "mtrr", "pressure", "scsi", "sys", "sysrq-trigger")
"""What lies in `/proc` and lets root change the kernel, also without capabilities: by its number as a user alone."""


def find_lack() -> str:
    """Say in a clause why bubblewrap cannot be used here; "" if it can. It is tried once."""
    program = shutil.which(PROGRAM)
    if program is None:
        return "bubblewrap is not installed"
    if not is_known_machine():
        return "Bub knows the system calls of x86_64 and aarch64 only"
    return _try(program)


@cache
def _try(program: str) -> str:
    words = [program, *_ALONE, "--unshare-net", "--ro-bind", "/", "/", *_SYSTEM, "true"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return f"bubblewrap does not start: {error}"
    return "" if done.returncode == 0 else f"bubblewrap does not work here: {done.stderr.strip() or 'it failed'}"


def find_gap(_: Walls) -> str:
    """Say in a clause which wall it cannot build; there is none."""
    return ""


def filter_for(walls: Walls) -> bytes:
    """Return the filter of system calls."""
    return make_filter(has_namespaces=True, reaches_network=walls.reaches_network)


def furnish(walls: Walls, room: Room) -> None:
    """Make ready what the command is shown."""
    room.copy_settings(walls)
    room.hold_places(walls)


def begin(walls: Walls, room: Room, cwd: Path, descriptor: int) -> list[str]:
    """Return the words that begin a command; the filter is read from `descriptor`."""
    program = shutil.which(PROGRAM) or PROGRAM
    network = () if walls.reaches_network else ("--unshare-net",)
    inside = ("--chdir", str(cwd), "--seccomp", str(descriptor), "--")
    return [program, *_ALONE, *network, *_SYSTEM, *_mounts(walls, room), "--remount-ro", "/", *inside]


def environment(_: Room) -> dict[str, str]:
    """Return the variables that say where the private folders are."""
    return {"TMPDIR": "/tmp"}


def _mounts(walls: Walls, room: Room) -> Iterator[str]:
    """Yield what is seen: folders above others first, so that what lies deeper is laid over them."""
    for name in _OF_ROOT if os.geteuid() == 0 else ():
        if os.path.exists(f"/proc/{name}"):  # noqa: PTH110 (raises nothing)
            yield from ("--ro-bind", f"/proc/{name}", f"/proc/{name}")
    home = Path(os.path.realpath(Path.home()))
    shown = {path: ("--ro-bind", str(path)) for path in (*walls.programs, *walls.read)}
    if home.exists() or not any(home.is_relative_to(path) for path in (*shown, *walls.write)):
        shown.setdefault(home, ("--bind", str(room.home)))
    shown.setdefault(Path("/tmp"), ("--bind", str(room.temporary)))
    shown[Path("/etc")] = ("--ro-bind", str(room.settings))
    shown |= {path: ("--bind", str(path)) for path in walls.write}
    for path in walls.kept:
        shown |= {folder: shown.get(folder, ("--bind", str(folder))) for folder in _way_to(path, walls)}
        shown[path] = ("--ro-bind", str(path))
    nothing = ("--ro-bind", str(room.nothing))
    shown |= {path: nothing if path.is_file() else ("--tmpfs", "") for path in walls.hidden}
    shown |= dict.fromkeys(room.placeholders, nothing)
    for path in sorted(shown, key=lambda path: len(path.parts)):
        yield from (word for word in (*shown[path], str(path)) if word)
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        if os.path.islink(f"/{name}"):  # noqa: PTH114 (raises nothing)
            yield from ("--symlink", os.readlink(f"/{name}"), f"/{name}")  # noqa: PTH115 (a text is wanted)


def _way_to(path: Path, walls: Walls) -> Iterator[Path]:
    """Yield the folders between what may be written and a file in it: renaming one would make room for another file."""
    for folder in path.parents:
        if any(folder != root and folder.is_relative_to(root) for root in walls.write):
            yield folder
