"""The gateway as a service of the person's own service manager: systemd on Linux, launchd on macOS."""

from __future__ import annotations

import hashlib
import os
import plistlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from bub.base.failures import explain_os_error
from bub.base.rewrite import write_new
from bub.errors import BubError, UsageError

MARK = "Written by `bub gateway --install`"
"""What the file of a service says of itself; no other file is ever changed or removed."""

_PATIENCE = 120.0
"""How long, in seconds, a service manager may take."""

CARRIED = ("BUB_HOME", "BUB_CONFIG", "BUB_PROFILE", "BUB_AGENT", "PATH")
"""What a service gets of the environment: what steers Bub itself, and where the agent finds programs."""

_UNIT = f"""\
# {MARK}; `bub gateway --uninstall` removes it.
[Unit]
Description=Bub's gateway in %(folder)s
StartLimitIntervalSec=0

[Service]
Type=notify
WorkingDirectory=%(folder)s
%(environment)s
ExecStart=%(command)s
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=5
RestartPreventExitStatus=2
RestartForceExitStatus=SIGHUP
KillMode=mixed
TimeoutStartSec=120
TimeoutStopSec=60
NoNewPrivileges=yes
UMask=0077

[Install]
WantedBy=default.target
"""


class Service(msgspec.Struct, frozen=True):
    """The gateway of one folder as a service: its `file`, and the commands that `start` and `stop` it.

    `probe` is a command that fails if the manager cannot be reached, `settle` are those after the file is gone. `log`
    is the command that shows what it printed, `hint` what else a person may want to run.
    """

    name: str
    file: Path
    text: bytes
    probe: tuple[str, ...]
    start: tuple[tuple[str, ...], ...]
    stop: tuple[tuple[str, ...], ...]
    settle: tuple[tuple[str, ...], ...]
    log: str
    hint: str

    @property
    def is_installed(self) -> bool:
        """Whether its file is there, and Bub's."""
        return _is_own(self.file)


def plan_service(command: Sequence[str], workspace: Path, environ: Mapping[str, str]) -> Service:
    """Plan the service that runs a command in a folder; nothing is written.

    Raises `UsageError` if this system has no service manager that Bub knows, or if the folder's name cannot be written
    into its file.
    """
    folder = Path(os.path.realpath(workspace))
    words = [str(folder), *command, *(environ.get(name, "") for name in CARRIED)]
    if any(not word.isprintable() for word in words):
        raise UsageError("a service cannot have line breaks or other invisible letters in its paths and options")
    slug = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-")[:40] or "agent"
    name = f"bub-{slug}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:6]}"
    carried = {name: environ[name] for name in CARRIED if environ.get(name)}
    if sys.platform == "darwin":
        return _plan_agent(name, command, folder, carried)
    if shutil.which("systemctl") is None:
        raise UsageError(
            "there is no systemd here, whose services Bub knows how to install",
            help="let the service manager of this system run `bub gateway`; docs/gateway.md says what matters",
        )
    return _plan_unit(name, command, folder, carried, environ)


def install_service(service: Service) -> None:
    """Write the service's file and start it; one that runs is started again.

    Raises `BubError` if that fails; a service that was not there before is then removed again.
    """
    if os.path.lexists(service.file) and not service.is_installed:
        raise BubError(f"{service.file} is not Bub's", help="move it away, then try again")
    was_installed = service.is_installed
    _run(service.probe, help="log in as the user whose service it is to be, and try again; nothing was written")
    try:
        service.file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BubError(f"{service.file.parent} cannot be made: {explain_os_error(error)}") from None
    write_new(service.file, service.text)
    try:
        for command in service.start:
            _run(command, help=f"`{service.log}` shows why; `bub gateway` in the folder shows it, too")
    except BaseException:  # a Ctrl-C, too: a half of an installation is none
        if not was_installed:
            with suppress(BubError):
                remove_service(service)
        raise


def remove_service(service: Service) -> None:
    """Stop the service and remove its file. Raises `BubError` if there is none, or it cannot be removed."""
    if not service.is_installed:
        raise UsageError(f"there is no service for this folder: {service.file} is not there")
    for command in service.stop:
        _run(command, help=f"stop it, then remove {service.file}")
    try:
        service.file.unlink(missing_ok=True)
    except OSError as error:
        raise BubError(f"{service.file} cannot be removed: {explain_os_error(error)}") from None
    for command in service.settle:
        _run(command, help="the file of the service is removed")


def find_services(environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Yield the files of all services that Bub wrote, each with the command that stops it."""
    for folder, ending, stop in (
        (_units(environ), ".service", "systemctl --user disable --now {}"),
        (_agents(), ".plist", f"launchctl bootout gui/{os.getuid()}/{{}}"),
    ):
        for file in sorted(folder.glob(f"bub-*{ending}")):
            if _is_own(file):
                yield file, stop.format(file.stem)


def _plan_unit(
    name: str, command: Sequence[str], folder: Path, carried: Mapping[str, str], environ: Mapping[str, str]
) -> Service:
    said = {
        "folder": _escape(str(folder)),
        "environment": "\n".join(f"Environment={_quote(f'{key}={value}')}" for key, value in carried.items()),
        "command": " ".join(_quote(word.replace("$", "$$")) for word in command),
    }
    systemctl = ("systemctl", "--user")
    return Service(
        name,
        _units(environ) / f"{name}.service",
        (_UNIT % said).encode(),
        (*systemctl, "show-environment"),
        ((*systemctl, "daemon-reload"), (*systemctl, "enable", name), (*systemctl, "restart", name)),
        ((*systemctl, "disable", "--now", name),),
        ((*systemctl, "daemon-reload"),),
        f"journalctl --user --unit {name} --lines 20",
        "it runs while you are logged in; `sudo loginctl enable-linger $USER` lets it run always",
    )


def _plan_agent(name: str, command: Sequence[str], folder: Path, carried: Mapping[str, str]) -> Service:
    said = {
        "Label": name,
        "Comment": MARK,
        "ProgramArguments": list(command),
        "WorkingDirectory": str(folder),
        "EnvironmentVariables": dict(carried),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ExitTimeOut": 60,
        "Umask": 0o077,
        "ProcessType": "Interactive",
    }
    domain, file = f"gui/{os.getuid()}", _agents() / f"{name}.plist"
    return Service(
        name,
        file,
        plistlib.dumps(said),
        ("launchctl", "print", domain),
        (("launchctl", "bootstrap", domain, str(file)), ("launchctl", "kickstart", "-k", f"{domain}/{name}")),
        (("launchctl", "bootout", f"{domain}/{name}"),),
        (),
        "bub doctor",
        "it runs while you are logged in",
    )


def _units(environ: Mapping[str, str]) -> Path:
    own = environ.get("XDG_CONFIG_HOME")
    return (Path(own) if own else Path("~/.config").expanduser()) / "systemd" / "user"


def _agents() -> Path:
    return Path("~/Library/LaunchAgents").expanduser()


def _is_own(file: Path) -> bool:
    try:
        return MARK in file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def _escape(text: str) -> str:
    """A text as the file of a unit holds it, if `%` is a sign there."""
    return text.replace("%", "%%")


def _quote(word: str) -> str:
    quoted = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_escape(quoted)}"'


def _run(command: Sequence[str], *, help: str) -> None:  # noqa: A002 (the reader's word)
    shown = " ".join(command)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise BubError(f"`{shown}` cannot be run: {error}", help=help) from None
    if done.returncode != 0:
        said = " / ".join(line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip())
        raise BubError(f"`{shown}` failed: {said[:400] or f'exit code {done.returncode}'}", help=help)
