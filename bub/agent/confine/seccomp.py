"""The system calls that a confined command may not make, as a program for the kernel (seccomp, Linux)."""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
"""Instructions: load a word of the call; compare it with `==`, `>=`, `&`; end."""

_NUMBER, _MACHINE = 0, 4
"""The places of the call's number, and of the machine that it is made for, in what the kernel hands over."""

_ALLOW, _REFUSE, _KILL, _ASK = 0x7FFF0000, 0x00050000, 0x80000000, 0x7FC00000

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _SEQPACKET, _KIND_OF_SOCKET = 1, 5, 0xF

_NAMESPACES = 0x7E020000
"""The flags of `clone` that make a namespace: of users, mounts, processes, networks and the rest."""

_TYPING = (0x5412, 0x541C, 0x5423)
"""What `ioctl` is asked for to type into a terminal, or to make one of something else."""

_NEWEST = 462
"""The last call that this module knows; newer ones do not exist for a confined command, which uses older ones then."""


class Machine(NamedTuple):
    """What differs between kinds of processors: a name for the kernel, and the numbers of calls."""

    name: int
    calls: Mapping[str, int]


def _machine(name: int, column: int) -> Machine:
    return Machine(name, MappingProxyType({call: each[column] for call, each in _CALLS.items() if each[column] >= 0}))


_NONE = -1

_CALLS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        # Looking into other processes.
        "ptrace": (101, 117),
        "process_vm_readv": (310, 270),
        "process_vm_writev": (311, 271),
        "process_madvise": (440, 440),
        "pidfd_getfd": (438, 438),
        "kcmp": (312, 272),
        "perf_event_open": (298, 241),
        "userfaultfd": (323, 282),
        # Other namespaces, roots and mounts; files by what is no path.
        "unshare": (272, 97),
        "setns": (308, 268),
        "mount": (165, 40),
        "umount2": (166, 39),
        "pivot_root": (155, 41),
        "chroot": (161, 51),
        "open_tree": (428, 428),
        "move_mount": (429, 429),
        "fsopen": (430, 430),
        "fsconfig": (431, 431),
        "fsmount": (432, 432),
        "fspick": (433, 433),
        "mount_setattr": (442, 442),
        "open_by_handle_at": (304, 265),
        "quotactl": (179, 60),
        "quotactl_fd": (443, 443),
        "fanotify_init": (300, 262),
        # Ways around this very filter, and keys that the kernel keeps for the user.
        "io_uring_setup": (425, 425),
        "io_uring_enter": (426, 426),
        "io_uring_register": (427, 427),
        "bpf": (321, 280),
        "add_key": (248, 217),
        "request_key": (249, 218),
        "keyctl": (250, 219),
        # The machine itself.
        "init_module": (175, 105),
        "finit_module": (313, 273),
        "delete_module": (176, 106),
        "kexec_load": (246, 104),
        "kexec_file_load": (320, 294),
        "reboot": (169, 142),
        "swapon": (167, 224),
        "swapoff": (168, 225),
        "acct": (163, 89),
        "settimeofday": (164, 170),
        "clock_settime": (227, 112),
        "adjtimex": (159, 171),
        "clock_adjtime": (305, 266),
        "sethostname": (170, 161),
        "setdomainname": (171, 162),
        "iopl": (172, _NONE),
        "ioperm": (173, _NONE),
        "modify_ldt": (154, _NONE),
        "syslog": (103, 116),
        "vhangup": (153, 58),
        # Judged by their arguments.
        "clone": (56, 220),
        "clone3": (435, 435),
        "ioctl": (16, 29),
        "socket": (41, 198),
        "socketpair": (53, 199),
        "prlimit64": (302, 261),
        "open": (2, _NONE),
        "openat": (257, 56),
        "openat2": (437, 437),
        "creat": (85, _NONE),
        "mknod": (133, _NONE),
        "mknodat": (259, 33),
        # Memory and messages that processes share by a number.
        "shmget": (29, 194),
        "shmat": (30, 196),
        "shmctl": (31, 195),
        "msgget": (68, 186),
        "msgsnd": (69, 189),
        "msgrcv": (70, 188),
        "msgctl": (71, 187),
        "semget": (64, 190),
        "semctl": (66, 191),
        "mq_open": (240, 180),
        # What is known of a file beside what is in it.
        "chmod": (90, _NONE),
        "fchmod": (91, 52),
        "fchmodat": (268, 53),
        "fchmodat2": (452, 452),
        "chown": (92, _NONE),
        "fchown": (93, 55),
        "lchown": (94, _NONE),
        "fchownat": (260, 54),
        "utimensat": (280, 88),
        "utime": (132, _NONE),
        "utimes": (235, _NONE),
        "futimesat": (261, _NONE),
        "setxattr": (188, 5),
        "lsetxattr": (189, 6),
        "fsetxattr": (190, 7),
        "removexattr": (197, 14),
        "lremovexattr": (198, 15),
        "fremovexattr": (199, 16),
    }
)
"""The numbers of calls: of x86_64, and of aarch64."""

_OTHERS_RIGHTS = 0o6000
"""The bits of a mode with which a program runs with the rights of its owner, or of its group."""

_MODES: Mapping[str, int] = MappingProxyType(
    {
        "open": 2,
        "openat": 3,
        "creat": 1,
        "mknod": 1,
        "mknodat": 2,
        "chmod": 1,
        "fchmod": 1,
        "fchmodat": 2,
        "fchmodat2": 2,
    }
)
"""Which argument of a call is a mode."""

_BY_ARGUMENTS = ("clone", "clone3", "ioctl", "socket", "socketpair", "prlimit64", "openat2", *_MODES)
ASKED = ("chmod", "fchmod", "fchmodat", "fchmodat2", "utimensat")
"""Changes that are made for the command, by a process that looks where the file lies."""

_OUT_OF_NAMESPACES = tuple(_CALLS)[tuple(_CALLS).index("shmget") :]

_MACHINES: Mapping[str, Machine] = MappingProxyType(
    {"x86_64": _machine(0xC000003E, 0), "aarch64": _machine(0xC00000B7, 1)}
)


def is_known_machine() -> bool:
    """Whether a filter can be made for this processor."""
    return platform.machine() in _MACHINES


def make_filter(*, has_namespaces: bool, reaches_network: bool) -> bytes:
    """Make the filter for a confined command on this machine.

    A command that `has_namespaces` sees files, processes and shared memory of its own alone, and if it does not reach a
    network, sockets of its own. Any other may have no socket with a name in a folder, since who listens there obeys no
    `reach`. Without namespaces, owners and attributes of files stay as they are, wherever these lie, and the process at
    the other end is asked for modes and times.
    """
    machine = _MACHINES[platform.machine()]
    program = _Program(machine)
    program.refuse([name for name in machine.calls if name not in (*_BY_ARGUMENTS, *_OUT_OF_NAMESPACES)], errno.EPERM)
    program.refuse(["clone3", "openat2"], errno.ENOSYS)  # their flags lie in memory, where no filter sees them
    for name, argument in _MODES.items():
        program.refuse_if(
            name, argument, _ANY_BIT, [_OTHERS_RIGHTS], errno.EPERM, ask=name in ASKED and not has_namespaces
        )
    program.refuse_if("clone", 0, _ANY_BIT, [_NAMESPACES], errno.EPERM)
    program.refuse_if("ioctl", 1, _EQUAL, _TYPING, errno.EPERM)
    if has_namespaces and not reaches_network:
        program.refuse_unless("socket", 0, [_UNIX, _INET, _INET6, _NETLINK])
    else:
        program.refuse_unless("socket", 0, [_INET, _INET6, _NETLINK] if reaches_network else [])
        # One with datagrams can send to any name, though it is connected.
        program.refuse_unless("socketpair", 1, [_STREAM, _SEQPACKET], mask=_KIND_OF_SOCKET)
    if not has_namespaces:
        attributes = [name for name in _OUT_OF_NAMESPACES if name.endswith("xattr")]
        program.refuse(attributes, errno.ENOTSUP)  # as a disk says that has none, which programs take well
        program.refuse(set(_OUT_OF_NAMESPACES).difference(attributes, ASKED), errno.EPERM)
        program.ask(["utimensat"])
        program.refuse_unless("prlimit64", 0, [0])  # that of other processes, such as Bub
    return program.end()


class _Program:
    """Collects instructions; each call's own part ends by itself, so that the parts do not know of each other."""

    def __init__(self, machine: Machine) -> None:
        self._calls = machine.calls
        self._code = [
            *(_one(_LOAD, _MACHINE), _one(_EQUAL, machine.name, 1, 0), _one(_RETURN, _KILL)),
            *(_one(_LOAD, _NUMBER), _one(_AT_LEAST, _NEWEST + 1, 0, 1), _one(_RETURN, _REFUSE | errno.ENOSYS)),
        ]

    def refuse(self, names: Iterable[str], error: int) -> None:
        for name in names:
            if name in self._calls:
                self._add(_one(_EQUAL, self._calls[name], 0, 1), _one(_RETURN, _REFUSE | error))

    def refuse_if(
        self, name: str, argument: int, comparison: int, values: Iterable[int], error: int, ask: bool = False
    ) -> None:
        tests = [one for value in values for one in (_one(comparison, value, 0, 1), _one(_RETURN, _REFUSE | error))]
        self._judge(name, _load(argument), *tests, _one(_RETURN, _ASK if ask else _ALLOW))

    def refuse_unless(self, name: str, argument: int, values: Iterable[int], mask: int = 0xFFFFFFFF) -> None:
        tests = [one for value in values for one in (_one(_EQUAL, value, 0, 1), _one(_RETURN, _ALLOW))]
        masked = _one(0x54, mask)
        self._judge(name, _load(argument), masked, *tests, _one(_RETURN, _REFUSE | errno.EACCES))

    def ask(self, names: Iterable[str]) -> None:
        for name in names:
            if name in self._calls:
                self._add(_one(_EQUAL, self._calls[name], 0, 1), _one(_RETURN, _ASK))

    def end(self) -> bytes:
        self._add(_one(_RETURN, _ALLOW))
        return b"".join(self._code)

    def _judge(self, name: str, *tests: bytes) -> None:
        if name in self._calls:
            self._add(_one(_EQUAL, self._calls[name], 0, len(tests)), *tests)

    def _add(self, *code: bytes) -> None:
        self._code += code


def _one(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _load(argument: int) -> bytes:
    """Load the lower half of an argument."""
    return _one(_LOAD, 16 + 8 * argument)
