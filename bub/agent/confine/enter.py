"""Begins a command that Landlock confines, as a program: `python -I -S enter.py FILTER RULE… -- COMMAND…`.

It is three processes. The first leads the group that Bub knows, and ends as the command does. The second is out of
reach for the command, and an ancestor of all that the command starts, however that hides: when the command or the first
process ends, it kills what is left. The third gives up its rights and becomes the command. It loads nothing of Bub,
since each command waits for it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` and the like would take longer than all that this does
    from collections.abc import Iterator, Sequence
    from typing import NoReturn

CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""The numbers of the system calls of Landlock, which are the same on all processors."""

_READ = 0b1101
"""Execute, read files, list folders."""

_WRITE = _READ | 0b0111_0111_1011_0010
"""And write, remove, cut, move, make files, folders, links, pipes and sockets, but no devices."""

_ALL = 0xFFFF
_OF_FILES = 0b1100_0000_0000_0111
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_ABOUT = ("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/version")
_TCP, _SCOPES = 0b11, 0b11

_NO_NEW_PRIVILEGES, _SECCOMP, _SUBREAPER, _DEATH_SIGNAL, _DROP_BOUND, _AMBIENT = 38, 22, 36, 1, 24, 47
_LAST_CAPABILITY = 63

_CANNOT = 126

_libc = ctypes.CDLL(None, use_errno=True)


def main(words: Sequence[str]) -> int:
    """Run the command with all rules; returns how it ended, 128 and the signal if one ended it."""
    rules, command = words[1 : words.index("--")], words[words.index("--") + 1 :]
    group = os.getpid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    second = os.fork()
    if second:
        return os.waitstatus_to_exitcode(os.waitpid(second, 0)[1])
    os.setpgid(0, 0)
    _call("prctl", _SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, _end)
    _call("prctl", _DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != group:
        os._exit(_CANNOT)
    third = os.fork()
    if not third:
        _become(group, int(words[0]), rules, command)
    code = _CANNOT
    try:  # noqa: SIM105 (as below)
        code = _wait(third)
    except SystemExit:
        pass
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _kill_all()
    os._exit(code)


def _end(*_: object) -> NoReturn:
    raise SystemExit


def _wait(child: int) -> int:
    while True:
        process, status = os.waitpid(-1, 0)
        if process == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _kill_all() -> None:
    """Kill all children until there are none: the children of each become children of this process."""
    while True:
        for child in _children():
            os.kill(child, signal.SIGKILL)  # that of nobody else, since this process has not waited for it
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> Iterator[int]:
    own = str(os.getpid())
    for name in os.listdir("/proc"):  # noqa: PTH208 (as below)
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 (as below)
                    parent = file.read().rpartition(")")[2].split()[1]
            except OSError:  # it has ended
                continue
            if parent == own:
                yield int(name)


def _become(group: int, descriptor: int, rules: Sequence[str], command: Sequence[str]) -> NoReturn:
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.setpgid(0, group)
        program = os.read(descriptor, 1 << 20)
        os.close(descriptor)
        _give_up_capabilities()
        _call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        _restrict(rules)
        _filter(program)
        os.execvp(command[0], list(command))
    except BaseException as error:  # noqa: BLE001 (nothing may go on as another process of Bub)
        os.write(2, f"the command cannot be confined: {error}\n".encode(errors="replace"))
    os._exit(_CANNOT)


def _give_up_capabilities() -> None:
    for capability in range(_LAST_CAPABILITY + 1):
        _libc.prctl(_DROP_BOUND, capability, 0, 0, 0)  # not for everybody; the rest is what counts
    _libc.prctl(_AMBIENT, 4, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    _call("capset", header, (ctypes.c_uint32 * 6)())


def _restrict(rules: Sequence[str]) -> None:
    network = _TCP if "no-network" in rules else 0
    handled = (ctypes.c_uint64 * 3)(_ALL, network, _SCOPES)
    ruleset = _call("syscall", CREATE_RULESET, handled, ctypes.sizeof(handled), 0)
    for path in _DEVICES:
        _allow(ruleset, path, 0b110)
    for path in _ABOUT:
        _allow(ruleset, path, _READ)
    for rule in rules:
        kind, _, path = rule.partition("=")
        if path:
            _allow(ruleset, path, _WRITE if kind == "write" else _READ)
    _call("syscall", _RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:  # what is gone needs no right
        return
    if not os.path.isdir(path):  # noqa: PTH112 (`pathlib` and `contextlib` take milliseconds to import)
        rights &= _OF_FILES
    rule = rights.to_bytes(8, sys.byteorder) + place.to_bytes(4, sys.byteorder)
    _call("syscall", _ADD_RULE, ruleset, 1, rule, 0)
    os.close(place)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def _filter(program: bytes) -> None:
    _call("prctl", _SECCOMP, 2, ctypes.byref(_Program(len(program) // 8, program)), 0, 0)


def _call(name: str, *arguments: object) -> int:
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = int(getattr(_libc, name)(*words))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
