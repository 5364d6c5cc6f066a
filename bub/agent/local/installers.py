"""Installing a package into a folder, with the pip or the uv that is there, else with one for this time only."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from bub.asking import Telling
from bub.base.failures import explain_os_error
from bub.base.private import lock_file
from bub.errors import BubError
from bub.log import log_warning

__all__ = [
    "Cause",
    "Workplace",
    "cause_of",
    "install_into",
    "pip_command",
    "run_installer",
    "uv_configuration",
    "wait_for_lock",
]

_PAUSE = 0.2
_PATIENCE = 5.0
"""Seconds that an installer has to end once it shall."""

_FULL = re.compile(r"No space left on device|Disk quota exceeded|os error (28|122)\b")
_OFFLINE = re.compile(
    r"Failed to establish a new connection|NameResolutionError|connection broken by|ConnectTimeout|Read timed out"
    r"|Max retries exceeded|dns error|error sending request|Failed to fetch|ProxyError|Could not connect"
)
_NO_BUILD = re.compile(r"No matching distribution found|No solution found")
_SAID_LAST = 3

Cause: TypeAlias = Literal["full", "offline", "unfitting", "another"]
"""Why an installer fails: a full disk, an index that cannot be reached, no package that fits, or something else."""

Watch: TypeAlias = Callable[[], None]
"""What is called several times a second while an installer works."""


class Workplace(msgspec.Struct, frozen=True):
    """A folder that everything of an installation goes to until it is whole; installers work in it, and in no other.

    So nothing of the folder that the user is in is imported, or configures them. `lock` stays locked as long as one
    of them lives. `again` is the command that starts the installation.
    """

    folder: Path
    lock: int
    again: str

    def run(self, command: Sequence[str], watch: Watch) -> tuple[int, str]:
        """Run a command to its end; return its exit code and what it printed. It is ended if `watch` raises."""
        printed, temporary = self.folder / "printed", self.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        with printed.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=_environment(os.environ, temporary),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(self.lock,),
                start_new_session=True,  # so that Ctrl-C comes here first, and nothing is asked at the terminal
            )
        try:
            while process.poll() is None:
                watch()
                time.sleep(_PAUSE)  # no event loop runs here, and a progress bar is drawn between two looks
        finally:
            _end(process)
        return process.returncode, printed.read_text(encoding="utf-8", errors="replace")


def install_into(target: Path, distribution: str, workplace: Workplace, watch: Watch, *, alone: bool) -> None:
    """Install a package, and unless it shall be `alone` what it needs, into a folder. Nothing is ever compiled.

    Raises BubError that says in a line why it failed and what to do; what the installer printed goes to the log.
    """
    command = [
        *_find_installer(workplace, watch),
        *("--only-binary", ":all:"),
        *(["--no-deps"] if alone else []),
        *("--target", str(target)),
        distribution,
    ]
    code, printed = run_installer(command, workplace, watch)
    if code != 0:
        log_warning("local.install_failed", command=command, code=code, printed=printed)
        raise _explain(printed, code, distribution, workplace)


def _find_installer(workplace: Workplace, watch: Watch) -> list[str]:
    """The command that installs packages for this Python: its own pip, uv, or the pip of a temporary environment."""
    uv = shutil.which("uv")
    if importlib.util.find_spec("pip") is not None:
        return pip_command(sys.executable, "install", "--no-cache-dir")
    if uv is not None and os.path.isabs(uv):  # noqa: PTH117 (a name that leads into the current folder is nobody's uv)
        return [
            uv,
            "pip",
            "install",
            "--quiet",
            "--no-cache",
            *uv_configuration(os.environ),
            "--python",
            sys.executable,
        ]
    python = workplace.folder / "pip" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    if not python.exists():
        code, printed = run_installer([sys.executable, "-P", "-m", "venv", str(python.parent.parent)], workplace, watch)
        if code != 0:
            log_warning("local.venv_failed", code=code, printed=printed)
            reason = "its disk is full" if _FULL.search(printed) else "this Python cannot make an environment with pip"
            raise BubError(
                f"there is neither pip nor uv to install with, and {reason}",
                help=f"install uv or pip (on Debian and Ubuntu the package python3-venv), then {workplace.again}",
            )
    return pip_command(str(python), "install", "--no-cache-dir")


def wait_for_lock(lock: int, tell: Telling) -> None:
    """Lock an open file; as long as another process installs, say how long that takes."""
    with contextlib.suppress(BlockingIOError):
        lock_file(lock, wait=False)
        return
    begun = time.monotonic()
    with tell.progress("another process is installing it") as show:
        while True:
            try:
                lock_file(lock, wait=False)
                return
            except BlockingIOError:
                show(f"another process is installing it: waiting, {time.monotonic() - begun:.0f} s")
                time.sleep(_PAUSE)  # a lock that is waited for in the system could not show how long


def pip_command(python: str, *words: str) -> list[str]:
    """Return a command of a Python's pip that asks nothing."""
    # -P: without it Python looks for pip in the current folder first.
    # If it does not try again, pip does not say that the index could not be reached.
    options = ("--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--retries", "2")
    return [python, "-P", "-m", "pip", *words, *options]


def uv_configuration(environ: Mapping[str, str]) -> list[str]:
    """Return the options that let uv read the user's configuration or the system's, and no file of the folders."""
    if environ.get("UV_CONFIG_FILE"):
        return []
    own = environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111 (it never raises)
    for folder in (own, *(environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep), "/etc"):
        file = Path(folder) / "uv" / "uv.toml"
        if file.is_absolute() and file.is_file():
            return ["--config-file", str(file)]
    return ["--no-config"]


def _environment(environ: Mapping[str, str], temporary: Path) -> dict[str, str]:
    """The environment of an installer. What it unpacks is beside the target, so that it is moved there and not copied.

    Whoever has pip install for the user or in environments only means their own packages.
    """
    return {**environ, "TMPDIR": str(temporary), "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0", "NO_COLOR": "1"}


def run_installer(command: Sequence[str], workplace: Workplace, watch: Watch) -> tuple[int, str]:
    """Run an installer; return its exit code and what it printed. Raises BubError if it cannot be started."""
    try:
        return workplace.run(command, watch)
    except OSError as error:
        raise BubError(
            f"cannot run {command[0]}: {explain_os_error(error)}", help=f"correct that, then {workplace.again}"
        ) from None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and those it started, at once if they do not end by themselves."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        try:
            os.killpg(process.pid, number)
            process.wait(_PATIENCE)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def cause_of(printed: str) -> Cause:
    """Tell why an installer failed, from what it printed."""
    if _FULL.search(printed):
        return "full"
    if _OFFLINE.search(printed):
        return "offline"
    return "unfitting" if _NO_BUILD.search(printed) else "another"


def _explain(printed: str, code: int, distribution: str, workplace: Workplace) -> BubError:
    """Say why an installer failed, from what it printed."""
    said = [line.strip() for line in printed.splitlines() if line.strip()]
    again = workplace.again
    cause = cause_of(printed)
    if cause == "full":
        where = workplace.folder.parent
        return BubError(
            f"{distribution} could not be installed: the disk of {where} is full",
            help=f"make room, or set BUB_HOME to a folder on another disk, then {again}",
        )
    if cause == "offline":
        return BubError(
            f"{distribution} could not be installed: the package index cannot be reached",
            help=f"check the network, and HTTPS_PROXY if it needs a proxy, then {again}",
        )
    if cause == "unfitting":
        here = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
        return BubError(
            f"{distribution} could not be installed: the package index has none that fits {here}",
            help="choose another model with `bub onboard`",
        )
    last = " / ".join(said[-_SAID_LAST:])[-400:] or f"exit code {code}"
    return BubError(f"{distribution} could not be installed: {last}", help=f"correct that, then {again}")
