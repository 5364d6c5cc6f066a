"""Whether this process was started by Bub, such as by a tool of an agent: then nobody can say yes in it (DESIGN §13).

It keeps an agent from saying yes to itself with what it has at hand. It is no wall: whoever runs as the same user can
hide where they come from.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

MARK = "BUB_STARTED_BY"
"""The variable that Bub sets for what it starts."""

_MOST_PARENTS = 64
_PATIENCE = 5.0


def is_started_by_bub(environ: Mapping[str, str]) -> bool:
    """Whether the environment says so, or that of a parent process, or a parent is Bub itself."""
    if MARK in environ:
        return True
    return any(marked or _is_bub(command) for command, marked in _parents(os.getppid()))


def _parents(process: int) -> Iterator[tuple[Sequence[str], bool]]:
    """Yield the command line of each parent process, and whether its environment has the mark."""
    if Path("/proc/self/stat").exists():
        find = _read_proc
    else:
        listed = _list_processes()

        def find(process: int) -> tuple[int, Sequence[str], bool]:
            parent, command = listed.get(process, (0, ()))
            return parent, command, False

    for _ in range(_MOST_PARENTS):
        if process <= 1:
            return
        process, command, marked = find(process)
        yield command, marked


def _read_proc(process: int) -> tuple[int, Sequence[str], bool]:
    folder = Path(f"/proc/{process}")
    try:
        # The name of the program stands in brackets, and may have brackets of its own.
        parent = int((folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
        command = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except (OSError, ValueError, IndexError):
        return 0, (), False
    try:
        marked = any(one.startswith(f"{MARK}=".encode()) for one in (folder / "environ").read_bytes().split(b"\0"))
    except OSError:  # another user's
        marked = False
    return parent, command, marked


def _list_processes() -> Mapping[int, tuple[int, Sequence[str]]]:
    """Return the parent and the command line of every process, where the system has `ps`."""
    try:
        said = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid=,args="], capture_output=True, text=True, timeout=_PATIENCE, check=False
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    words = [line.split() for line in said.splitlines()]
    return {int(each[0]): (int(each[1]), each[2:]) for each in words if len(each) > 2 and each[1].isdigit()}


def _is_bub(command: Sequence[str]) -> bool:
    """Whether a command line is `bub …` or `python -m bub …`, by the words before the first argument."""
    names = [Path(word).name for word in command[:4]]
    if names[:1] in (["bub"], ["bub.exe"]):
        return True
    is_python = bool(names) and "python" in names[0].lower()
    return is_python and (names[1:2] == ["bub"] or ("-m", "bub") in pairwise(command[:4]))
