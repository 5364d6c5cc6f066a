"""The agent's surroundings: what stays as it is goes into the system prompt, what changes goes with each message."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from bub.agent.tools.shell import find_shell

_BRANCH = re.compile(r"ref: refs/heads/([\w./+@-]{1,200})\s*|([0-9a-f]{40}|[0-9a-f]{64})\s*")
_FOLDER = re.compile(r"gitdir: ([^\n\0]{1,4000})\n?")
_LONGEST = 4096


def fixed_facts(workspace: Path) -> dict[str, str]:
    """What the system prompt may tell, by the name of its placeholder."""
    about = os.uname()
    return {
        "folder": os.path.realpath(workspace),
        "system": f"{about.sysname} {about.release} ({about.machine})",
        "shell": find_shell(),
    }


def describe_now(workspace: Path) -> str:
    """The moment, to the minute, and the git branch of the folder if it has one."""
    moment = datetime.now().astimezone()
    offset = moment.strftime("%z")
    # Not `%A`: the names of days should not depend on the locale of whoever runs Bub.
    day = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")[moment.weekday()]
    said = f"{day}, {moment:%Y-%m-%d %H:%M} (UTC{offset[:3]}:{offset[3:]})"
    branch = find_branch(workspace)
    return f"{said}; git branch: {branch}" if branch else said


def find_branch(folder: Path) -> str | None:
    """The git branch that a folder is on, the beginning of a commit's name if it is on none; None outside of git.

    Read from git's own files, without running anything: a repository can name programs that git would start. What is
    not written as the name of a branch or a commit is not told.
    """
    path = Path(os.path.realpath(folder))
    for above in (path, *path.parents):
        own = above / ".git"
        with suppress(OSError):
            mode = own.stat().st_mode
            if stat.S_ISREG(mode):
                link = _FOLDER.fullmatch(_read(own))
                own = above / link[1] if link else own
            found = _BRANCH.fullmatch(_read(own / "HEAD"))
            return (found[1] or f"none, at commit {found[2][:12]}") if found else None
    return None


def _read(path: Path) -> str:
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(opened, _LONGEST).decode("utf-8", "replace") if stat.S_ISREG(os.fstat(opened).st_mode) else ""
    finally:
        os.close(opened)
