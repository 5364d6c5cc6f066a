"""How many turns fit into this process: a turn takes open files and memory, and what runs out of either fails.

Nothing else bounds how many turns run at once. While they wait for a model they cost next to nothing; while they
compute, more of them at once would not be done sooner, but each gets its share.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

try:
    import resource
except ImportError:  # Windows, where files are not counted like this
    resource = None  # type: ignore[assignment]

FILES_OF_A_TURN = 4
"""A request to a model takes one; a command that a tool runs takes three."""

FILES_OF_BUB = 128
"""What is open besides: the stores, the log, channels, what plugins open."""

MEMORY_OF_A_TURN = 2 * 1024**2
"""Bytes: 0.1 MB while its answer streams, and what its context and its tools' results take."""

LEAST_TURNS = 8
MOST_TURNS = 10_000

_LIMITS_OF_A_CONTAINER = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_MOST_FILES = 65_536


def count_turns_that_fit() -> int:
    """How many turns this process has open files and memory for: half of the memory, and most of the files."""
    of_files = (_most_open_files() - FILES_OF_BUB) // FILES_OF_A_TURN
    of_memory = _memory() // 2 // MEMORY_OF_A_TURN
    return max(LEAST_TURNS, min(of_files, of_memory, MOST_TURNS))


def allow_open_files() -> None:
    """Let this process open as many files as the system lets it, as servers do: many begin with 256 or 1,024."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # macOS has a limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _most_open_files() -> int:
    if resource is None:
        return _MOST_FILES
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_FILES if soft == resource.RLIM_INFINITY else soft


def _memory() -> int:
    """The bytes of memory that this process may take: the machine's, or its container's."""
    found = [MOST_TURNS * MEMORY_OF_A_TURN * 2]
    with suppress(ValueError, OSError, AttributeError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in _LIMITS_OF_A_CONTAINER:
        with suppress(OSError, ValueError):  # "max" is no limit
            found.append(int(Path(path).read_text(encoding="ascii")))
    return min(found)
