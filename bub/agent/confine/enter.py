"""Begins a command that Landlock confines, as a program: `python -I -S enter.py FILTER RULE… -- COMMAND…`.

Without a command, `python -I -S enter.py version` prints the version of Landlock that the kernel has, 0 for none.

It is three processes. The first leads the group that Bub knows, and ends as the command does. The second is out of
reach for the command, and an ancestor of all that the command starts, however that hides: when the command or the first
process ends, it kills what is left. Meanwhile it changes modes and times of files for the command, which Landlock would
let the command do anywhere: the kernel asks it, and it looks where the file lies. The third process gives up its rights
and becomes the command. It loads nothing of Bub, since each command waits for it.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # what `signal` is made of; that takes milliseconds
import ctypes
import errno
import os
import select
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` and the like would take longer than all that this does
    from collections.abc import Iterator, Sequence
    from typing import NoReturn

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
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

_NO_NEW_PRIVILEGES, _SUBREAPER, _DEATH_SIGNAL, _DROP_BOUND, _AMBIENT = 38, 36, 1, 24, 47
_LAST_CAPABILITY = 63

_SECCOMP_CALL = {"x86_64": 317, "aarch64": 277}
_GET_DESCRIPTOR, _LISTENER = 438, 8
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_ANSWERED = {90: "chmod", 91: "fchmod", 268: "fchmodat", 280: "utimensat", 452: "fchmodat2"}
if os.uname().machine == "aarch64":
    _ANSWERED = {52: "fchmod", 53: "fchmodat", 88: "utimensat", 452: "fchmodat2"}
_HERE, _NO_FOLLOW, _EMPTY_PATH = -100, 0x100, 0x1000
_LONGEST_PATH, _PAGE = 4096, 4096
_AT_LEAST_EVERY = 5000
"""After how many milliseconds without a question to look for what has ended."""

_CANNOT = 126

_libc = ctypes.CDLL(None, use_errno=True)


def main(words: Sequence[str]) -> int:
    """Run the command with all rules; returns how it ended, 128 and the signal if one ended it."""
    if list(words) == ["version"]:
        sys.stdout.write(f"{max(0, _libc.syscall(_CREATE_RULESET, None, 0, 1))}\n")
        return 0
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
    told, tell = os.pipe()
    taken, take = os.pipe()
    third = os.fork()
    if not third:
        _become(group, int(words[0]), rules, command, tell, taken)
    for descriptor in (int(words[0]), tell, taken):
        os.close(descriptor)
    _give_up_capabilities()
    code = _CANNOT
    try:  # noqa: SIM105 (to import `contextlib` takes milliseconds)
        code = _serve(third, told, take, [rule[6:] for rule in rules if rule.startswith("write=")])
    except SystemExit:
        pass
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _kill_all()
    os._exit(code)


def _end(*_: object) -> NoReturn:
    raise SystemExit


def _serve(child: int, told: int, take: int, roots: Sequence[str]) -> int:
    """Change files for the command until it ends, and return how it did."""
    held = os.pidfd_open(child)
    watched = select.poll()
    watched.register(held, select.POLLIN)
    number = os.read(told, 4)  # nothing if it could not even begin
    asking = _call("syscall", _GET_DESCRIPTOR, held, int.from_bytes(number, "little"), 0) if number else -1
    if number:
        os.write(take, b"!")
        watched.register(asking, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in watched.poll(_AT_LEAST_EVERY)}
        if held in ready:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            return code if code >= 0 else 128 - code
        if asking in ready:
            _answer(asking, roots)
        else:
            _forget_others(child)


def _forget_others(child: int) -> None:
    """Take note of processes that have ended and whose parents had ended before."""
    while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and ended.si_pid != child:
        os.waitpid(ended.si_pid, 0)


class _Asked(ctypes.Structure):
    """What the kernel hands over of a call: who makes it, which, and with what."""

    _fields_ = (
        ("id", ctypes.c_uint64),
        ("process", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("number", ctypes.c_int),
        ("machine", ctypes.c_uint32),
        ("at", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * 6),
    )


class _Answered(ctypes.Structure):
    _fields_ = (
        ("id", ctypes.c_uint64),
        ("value", ctypes.c_int64),
        ("error", ctypes.c_int32),
        ("flags", ctypes.c_uint32),
    )


def _answer(asking: int, roots: Sequence[str]) -> None:
    asked = _Asked()
    if _libc.ioctl(asking, _RECEIVE, ctypes.byref(asked)) < 0:  # whoever asked has ended
        return
    error = 0
    try:
        _change(asked, roots)
    except OSError as failure:
        error = -(failure.errno or errno.EPERM)
    except Exception:  # noqa: BLE001 (whoever asked waits for an answer)
        error = -errno.EINVAL
    _libc.ioctl(asking, _SEND, ctypes.byref(_Answered(asked.id, 0, error, 0)))


def _change(asked: _Asked, roots: Sequence[str]) -> None:
    """Do what a call asks for, if the file lies in what may be written. Raises OSError, as the call would fail."""
    words = [int(word) for word in asked.arguments]
    name, process = _ANSWERED[asked.number], asked.process
    folder, path, what, flags = {
        "chmod": (_HERE, words[0], words[1], 0),
        "fchmod": (_signed(words[0]), 0, words[1], 0),
        "fchmodat": (_signed(words[0]), words[1], words[2], 0),
        "fchmodat2": (_signed(words[0]), words[1], words[2], words[3]),
        "utimensat": (_signed(words[0]), words[1], words[2], words[3]),
    }[name]
    file = _open(process, folder, _text(process, path) if path else b"", flags)
    try:
        shown = os.readlink(f"/proc/self/fd/{file}")  # noqa: PTH115 (to import `pathlib` takes milliseconds)
        if not any(shown == root or shown.startswith(f"{root}/") for root in roots):
            raise OSError(errno.EPERM, "it lies elsewhere")
        if name == "utimensat":
            times = _read(process, what, 32) if what else None
            _call("utimensat", file, b"", times, _EMPTY_PATH)
        else:
            os.chmod(f"/proc/self/fd/{file}", what & 0o7777)  # noqa: PTH101 (to import `pathlib` takes milliseconds)
    finally:
        os.close(file)


def _open(process: int, folder: int, path: bytes, flags: int) -> int:
    """Open the file that a process means, for nothing but to name it, as that process would find it."""
    here = f"/proc/{process}/cwd" if folder == _HERE else f"/proc/{process}/fd/{folder}"
    how = os.O_PATH | os.O_CLOEXEC | (os.O_NOFOLLOW if flags & _NO_FOLLOW else 0)
    if not path:
        return os.open(here, os.O_PATH | os.O_CLOEXEC)
    if path.startswith(b"/"):
        return os.open(path, how)
    base = os.open(here, os.O_PATH | os.O_CLOEXEC)
    try:
        return os.open(path, how, dir_fd=base)
    finally:
        os.close(base)


def _text(process: int, at: int) -> bytes:
    found = b""
    while b"\0" not in found and len(found) < _LONGEST_PATH:
        found += _read(process, at + len(found), _PAGE - (at + len(found)) % _PAGE)
    return found.partition(b"\0")[0]


def _read(process: int, at: int, length: int) -> bytes:
    memory = os.open(f"/proc/{process}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(memory, length, at)
    finally:
        os.close(memory)


def _signed(word: int) -> int:
    return ctypes.c_int32(word & 0xFFFFFFFF).value


def _kill_all() -> None:
    """Kill all children until there are none: the children of each become children of this process."""
    try:
        os.waitpid(-1, os.WNOHANG)  # mostly there are none
        while True:
            for child in _children():
                os.kill(child, signal.SIGKILL)  # that of nobody else, since this process has not waited for it
            os.waitpid(-1, 0)
    except ChildProcessError:
        return


def _children() -> Iterator[int]:
    own = str(os.getpid())
    for name in os.listdir("/proc"):  # noqa: PTH208 (to import `pathlib` takes milliseconds)
        if name.isdigit():
            try:
                # Not `Path.open`: to import `pathlib` takes milliseconds.
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                    parent = file.read().rpartition(")")[2].split()[1]
            except OSError:  # it has ended
                continue
            if parent == own:
                yield int(name)


def _become(
    group: int, descriptor: int, rules: Sequence[str], command: Sequence[str], tell: int, taken: int
) -> NoReturn:
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.setpgid(0, group)
        program = os.read(descriptor, 1 << 20)
        os.close(descriptor)
        _give_up_capabilities()
        _call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        _restrict(rules)
        _filter(program, tell, taken)
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
    ruleset = _call("syscall", _CREATE_RULESET, handled, ctypes.sizeof(handled), 0)
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
    if not os.path.isdir(path):  # noqa: PTH112 (to import `pathlib` takes milliseconds)
        rights &= _OF_FILES
    rule = rights.to_bytes(8, sys.byteorder) + place.to_bytes(4, sys.byteorder)
    _call("syscall", _ADD_RULE, ruleset, 1, rule, 0)
    os.close(place)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def _filter(program: bytes, tell: int, taken: int) -> None:
    """Let the kernel filter calls from now on, and wait until the second process has what it is asked by."""
    code = _Program(len(program) // 8, program)
    asking = _call("syscall", _SECCOMP_CALL[os.uname().machine], 1, _LISTENER, ctypes.byref(code))
    os.write(tell, asking.to_bytes(4, "little"))
    if not os.read(taken, 1):
        raise OSError(errno.EPIPE, "nobody answers")
    os.close(asking)


def _call(name: str, *arguments: object) -> int:
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = int(getattr(_libc, name)(*words))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
