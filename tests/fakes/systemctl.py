"""A `systemctl --user` for tests: reads units, runs their commands, and waits for READY=1 as systemd does.

Run as a program; `SYSTEMCTL_STATE` is the folder that holds the process ids, `NO_BUS=1` lets it find no manager.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

PATIENCE = 20.0


def fail(problem: str) -> int:
    print(problem, file=sys.stderr)
    return 1


def read_unit(name: str) -> dict[str, list[str]]:
    file = Path(os.environ["HOME"]) / ".config" / "systemd" / "user" / f"{name}.service"
    found: dict[str, list[str]] = {}
    for line in file.read_text().splitlines():
        key, sign, value = line.partition("=")
        if sign and not line.startswith("#"):
            found.setdefault(key, []).append(value.replace("%%", "%"))
    return found


def start(name: str, state: Path) -> int:
    """Start the command of a unit of `Type=notify`, and wait until it says that it is ready."""
    unit = read_unit(name)
    given = dict(word.split("=", 1) for line in unit["Environment"] for word in shlex.split(line))
    kept = {key: os.environ[key] for key in ("HOME", "PYTHONPATH") if key in os.environ}
    address = state / "notify"
    address.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line, (state / "journal").open("ab") as journal:
        line.bind(str(address))
        line.settimeout(0.1)
        process = subprocess.Popen(
            [word.replace("$$", "$") for word in shlex.split(unit["ExecStart"][0])],
            cwd=unit["WorkingDirectory"][0],
            env={**kept, **given, "NOTIFY_SOCKET": str(address)},
            stdin=subprocess.DEVNULL,
            stdout=journal,
            stderr=journal,
            start_new_session=True,
        )
        (state / name).write_text(str(process.pid))
        end = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < end:
            try:
                if b"READY=1" in line.recv(4096):
                    return 0
            except TimeoutError:
                continue
    return fail(f"Job for {name}.service failed because the control process exited with error code.")


def stop(name: str, state: Path) -> None:
    known = state / name
    if not known.exists():
        return
    process = int(known.read_text())
    known.unlink()
    end = time.monotonic() + PATIENCE
    try:
        os.kill(process, signal.SIGTERM)
        while time.monotonic() < end:
            os.kill(process, 0)
            time.sleep(0.05)  # a process of nobody here can only be looked at again and again
    except ProcessLookupError:
        return


def main(words: list[str]) -> int:
    state = Path(os.environ["SYSTEMCTL_STATE"])
    with (state / "calls").open("a") as calls:
        calls.write(" ".join(words) + "\n")
    if os.environ.get("NO_BUS") == "1":
        return fail("Failed to connect to bus: No medium found")
    match words:
        case ["--user", "restart", name]:
            stop(name, state)
            return start(name, state)
        case ["--user", "disable", "--now", name]:
            stop(name, state)
        case ["--user", "enable", name]:
            read_unit(name)
        case ["--user", "daemon-reload" | "show-environment"]:
            pass
        case _:
            return fail(f"Unknown command verb {words}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
