"""Kills the commands that outlive this program, however it ended: also by `kill -9`, or for want of memory.

A small process waits at the end of a pipe for what is written there by each command before it begins, and by Bub when
one is over. No command holds the pipe open once it has begun: it ends with Bub, and then the groups are killed that are
left. What asks the kernel to do that (`PR_SET_PDEATHSIG`) would not do: it knows threads, not processes, it leaves the
children of a command alone, and not every system has it.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_SHELL = "/bin/sh"

_ANNOUNCED = """\
trap : PIPE
echo "+ $$" 2>/dev/null >&0
trap - PIPE
exec "$@" </dev/null
"""
"""What begins a command: it says the number of its group, which is its own, into the pipe, and is then the command."""

_GUARD = """\
trap '' TERM INT HUP
groups=
while read -r sign group; do
  case $sign in
    +) groups="$groups $group" ;;
    -) left=
       for known in $groups; do [ "$known" = "$group" ] || left="$left $known"; done
       groups=$left ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
for found in $(grep -lzs -- "^$1" /proc/[0-9]*/environ); do
  found=${found#/proc/}
  kill -s KILL -- "${found%/environ}"
done
"""

OF_COMMAND = "BUB_COMMAND"
"""The variable that marks what a command starts: what has left its group is known by it, if there is a `/proc`."""

_MOST_ROUNDS = 20
"""How often what is marked is looked for: what is killed can have started something meanwhile."""

_ENDING = 1.0
"""How long, in seconds, the guard may take to end when nothing is left for it."""


class Guard:
    """Watches over the groups of commands. It begins with the first one, and begins again if somebody has ended it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: int | None = None
        self._mark = f"{os.getpid()}-{os.urandom(8).hex()}"
        self._marks = 0

    def make_mark(self) -> str:
        """Return a value of `OF_COMMAND` for a command; the guard kills what has such a mark, too."""
        self._marks += 1
        return f"{self._mark}-{self._marks}"

    def announced(self, command: Sequence[str]) -> list[str]:
        """Return the words that begin a command which is watched; it needs `pipe()` as its standard input."""
        return [_SHELL, "-c", _ANNOUNCED, "sh", *command]

    def pipe(self) -> int:
        """Return the pipe that commands are announced with. Raises OSError if the guard cannot begin."""
        if self._process is None or self._process.poll() is not None or self._pipe is None:
            self.close()
            self._begin()
        assert self._pipe is not None
        return self._pipe

    def watch(self, group: int) -> None:
        """Watch over a group that has not announced itself, since its standard input is for something else."""
        self._say(b"+ %d\n" % group)

    def forget(self, group: int) -> None:
        """Let a group be: it is over, and its number may soon be that of another one."""
        self._say(b"- %d\n" % group)

    def _say(self, line: bytes) -> None:
        if self._pipe is not None:
            with suppress(OSError):
                os.write(self._pipe, line)

    def close(self) -> None:
        """Let the guard end, which kills the groups that are left."""
        pipe, process, self._pipe, self._process = self._pipe, self._process, None, None
        if pipe is not None:
            os.close(pipe)
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_ENDING)

    def _begin(self) -> None:
        reading, writing = os.pipe()
        try:
            os.set_blocking(writing, False)  # a guard that somebody has stopped must not stop Bub
            self._process = subprocess.Popen(
                [_SHELL, "-c", _GUARD, "sh", f"{OF_COMMAND}={self._mark}-"],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
            )
        except BaseException:  # nobody would close it, and a Ctrl-C can come here, too
            os.close(writing)
            raise
        finally:
            os.close(reading)
        self._pipe = writing


def kill_marked(mark: str) -> None:
    """Kill all processes whose environment has a mark of a command, wherever they have gone; repeated until none has.

    One that was started with an environment of its own is not found.
    """
    sought = f"{OF_COMMAND}={mark}".encode()
    for _ in range(_MOST_ROUNDS):
        if not [process for process in _processes() if _kill_if(process, sought)]:
            return


def _processes() -> list[int]:
    try:
        return [int(found.name) for found in Path("/proc").iterdir() if found.name.isdigit()]
    except OSError:  # a system without it
        return []


def _kill_if(process: int, sought: bytes) -> bool:
    """Kill a process if its environment says so; it is held meanwhile, so that its number is not somebody else's."""
    try:
        held = os.pidfd_open(process)
    except OSError:
        return False
    try:
        if sought not in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
            return False
        signal.pidfd_send_signal(held, signal.SIGKILL)
    except OSError:
        return False
    finally:
        os.close(held)
    return True
