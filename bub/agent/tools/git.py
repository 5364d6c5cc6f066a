"""Git as it runs without a question: it reads one repository, and runs no program that this one names.

A repository's own settings can name programs in many ways, most of which no option turns off. So only a repository
whose settings are among those that are known to name none is read, and hooks are off.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from bub.plugins.simple_commands import Words

_PATIENCE = 5.0

_HARMLESS = re.compile(
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol"
    r"|safecrlf|quotepath|abbrev)"
    r"|extensions\.objectformat|init\.defaultbranch|user\.(name|email)|color\..*"
    r"|remote\..*\.(url|pushurl|fetch|prune|tagopt)|branch\..*\.(remote|merge|rebase|description)|pull\.(rebase|ff)|push\.default"
    r"|submodule\..*\.(url|active)",
    re.DOTALL,
)
"""What a repository may set: none of these names a program, or a file that is read."""

_WITHOUT = ("commondir", "objects/info/alternates", "objects/info/http-alternates")
"""What makes git read another repository beside this one."""

_OPTIONS = ("--no-pager", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "protocol.allow=never")

_OPTIONS_OF: Mapping[str, Words] = {
    "blame": ("--no-textconv",),
    "diff": ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all"),
    "log": ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all"),
    "show": ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all"),
    "status": ("--ignore-submodules=all",),
    "grep": ("--no-textconv", "--no-recurse-submodules"),
}
"""What is added below a command of git: a submodule is a repository with settings of its own."""

_VARIABLES = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_PAGER": "cat",
}


def plain_git(words: Words, known: int, folder: Path) -> Words:
    """Return the words that read the repository around a folder; none if git might do more there.

    `known` is how many of the words the profile lists. A word such as `HEAD:file` names a file from the top of the
    repository, which may be outside of what the agent may read.
    """
    top = next((one for one in (folder, *folder.parents) if os.path.lexists(one / ".git")), None)
    if top is None or any(":" in word for word in words[known:]) or not _is_plain(top, words[0]):
        return ()
    place = (f"--git-dir={top / '.git'}", f"--work-tree={top}")
    return (words[0], *_OPTIONS, *place, words[1], *_OPTIONS_OF.get(words[1], ()), *words[2:])


def plain_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without variables that change what git does."""
    return {name: value for name, value in environ.items() if not name.startswith("GIT_")} | _VARIABLES


def _is_plain(top: Path, program: str) -> bool:
    """Whether a repository names no program, and no other repository."""
    own = top / ".git"
    parts = (own, own / "objects", own / "refs", own / "config")
    try:
        if any(one.is_symlink() or one.lstat().st_uid not in (os.geteuid(), 0) for one in parts):
            return False
        if not own.is_dir() or any(os.path.lexists(own / name) for name in _WITHOUT):
            return False
        command = [program, "config", "--file", str(own / "config"), "--no-includes", "--list", "--name-only", "-z"]
        listed = subprocess.run(
            command, capture_output=True, env=plain_environment(os.environ), cwd="/", timeout=_PATIENCE, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return False
    names = listed.stdout.decode(errors="replace").split("\0")
    return all(_HARMLESS.fullmatch(name) for name in names if name)
