"""A shelter for code that is tried: a copy of the workspace, a home of its own, and no way out of there."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bub.errors import BubError, UsageError

MOST_BYTES, MOST_FILES = 200_000_000, 20_000
"""How much of a workspace is copied at most."""

_NOT_COPIED = (".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache")

_REFUSED = frozenset(
    {
        *("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo"),
        *("socket.gethostbyname", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn"),
        *("os.fork", "os.forkpty", "pty.spawn", "os.startfile", "os.kill", "os.killpg"),
    }
)
"""What Python tells audit hooks of that leads out of this process."""

_CHANGING = frozenset(
    {
        *("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod"),
        *("os.chown", "os.utime", "shutil.rmtree", "sqlite3.connect"),
    }
)
"""The audit events of changes to files; their arguments are the names of these files."""

_NAMED_TWICE = frozenset({"os.rename", "os.link", "os.symlink"})


class OutOfReachError(BubError, ConnectionRefusedError, PermissionError):
    """The network, another process, or a file outside of the copy, which `bub prove` keeps out of reach."""


class _Guard:
    """An audit hook, which Python cannot take off again: it does nothing while no folder is allowed."""

    def __init__(self) -> None:
        self.allowed: tuple[str, ...] = ()
        self.is_installed = False

    def install(self) -> None:
        if not self.is_installed:
            self.is_installed = True
            sys.addaudithook(self.hear)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.allowed:
            return
        if event in _REFUSED:
            raise OutOfReachError(f"`bub prove` refuses `{event}` to plugins", help="prove the pipeline with --mocked")
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND):
                self._require(path)
        elif event in _CHANGING:
            for path in arguments[: 2 if event in _NAMED_TWICE else 1]:
                self._require(path)

    def _require(self, path: Any) -> None:
        if isinstance(path, int):
            return  # open already
        name = os.path.realpath(os.fsdecode(path)) if path != ":memory:" else os.devnull
        if name != os.devnull and not name.startswith(self.allowed):
            problem = f"`bub prove` lets plugins write only into its copy of the workspace, not to {name}"
            raise OutOfReachError(problem, help="prove the pipeline with --mocked")


_guard = _Guard()


@contextmanager
def sheltered(workspace: Path | None) -> Iterator[Path]:
    """Give a copy of a workspace (None: an empty one) to work in, with a HOME and BUB_HOME of its own.

    Until the block is left, this process refuses sockets, other processes, and changes to files elsewhere. Raises
    `UsageError` for a workspace that is too large to be copied.
    """
    with tempfile.TemporaryDirectory(prefix="bub-prove-", ignore_cleanup_errors=True) as folder:
        copy, home = Path(folder, "workspace"), Path(folder, "home")
        home.mkdir()
        if workspace is not None:
            _copy(workspace, copy)
        else:
            copy.mkdir()
        before, here = dict(os.environ), Path.cwd()
        os.environ |= {"HOME": str(home), "BUB_HOME": str(home / ".bub"), "TMPDIR": folder}
        os.chdir(copy)
        _guard.install()
        _guard.allowed = (os.path.realpath(folder) + os.sep,)
        try:
            yield copy
        finally:
            _guard.allowed = ()
            os.chdir(here)
            os.environ.clear()
            os.environ.update(before)


def _copy(workspace: Path, to: Path) -> None:
    size = number = 0

    def skip(folder: str, names: list[str]) -> set[str]:
        nonlocal size, number
        skipped = {name for name in names if name in _NOT_COPIED}
        for name in names:
            path = os.path.join(folder, name)  # noqa: PTH118 (as quick as can be)
            if name in skipped or os.path.isdir(path):  # noqa: PTH112
                continue
            if not os.path.isfile(path):  # noqa: PTH113 (a socket, a pipe, a broken link)
                skipped.add(name)
                continue
            number, size = number + 1, size + os.path.getsize(path)  # noqa: PTH202
            if size > MOST_BYTES or number > MOST_FILES:
                raise UsageError(
                    f"the workspace {workspace} is too large to copy",
                    help="name a smaller folder with --workspace, or use --mocked, which copies nothing",
                )
        return skipped

    shutil.copytree(workspace, to, ignore=skip, symlinks=True)
