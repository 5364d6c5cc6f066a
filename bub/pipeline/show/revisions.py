"""Pipeline files as a git repository held them at some revision, read without running anything of the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bub.errors import UsageError
from bub.pipeline.source.yaml_reader import MAX_BYTES

_PATIENCE = 30.0
"""Seconds that git may take; it reads a few objects, so it needs milliseconds."""

_WHEREABOUTS = frozenset(
    f"GIT_{name}"
    for name in ("DIR", "WORK_TREE", "INDEX_FILE", "PREFIX", "COMMON_DIR", "OBJECT_DIRECTORY", "NAMESPACE")
)
"""The variables that name another repository than that of the folder; a git hook, for one, is given some of them."""

_HARMLESS: Final = {
    "GIT_ALLOW_PROTOCOL": "none",  # a repository's own settings say what fetches a missing object: nothing may
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}

_FILES, _LINK = (b"100644", b"100755"), b"120000"
"""The modes of entries in a tree of git."""


@dataclass(frozen=True, slots=True)
class Revision:
    """What a repository held at one commit: the tree that `bub.pipeline.source.merge` reads from.

    `top` is the repository's folder, `commit` the id of the commit that people know as `name`.
    """

    top: Path
    commit: str
    name: str

    @property
    def prefix(self) -> str:
        return f"git:{self.name}:"

    def read(self, path: Path) -> bytes:
        inside = self._inside(path)
        mode, identity = self._entry(inside)
        if mode == _LINK:
            raise OSError(None, "it is a link there: name the file itself")
        if mode not in _FILES:
            raise IsADirectoryError(None, "it is a folder")
        if int(_git(self.top, "cat-file", "-s", identity)) > MAX_BYTES:
            raise OSError(None, "it is larger than 1 MB")
        # The bytes as they were committed: this applies no filter and no text conversion.
        return _git(self.top, "cat-file", "blob", identity)

    def identity(self, path: Path) -> str:
        return f"{self.commit}:{os.path.normpath(path)}"

    def names(self, folder: Path) -> Iterable[str]:
        try:
            inside = self._inside(folder)
            below = [] if inside == os.curdir else [f"{inside}/"]
            listed = _git(self.top, "ls-tree", "-z", "--name-only", "--full-tree", self.commit, "--", *below)
        except (OSError, UsageError):
            return []
        return [os.path.basename(os.fsdecode(name)) for name in listed.split(b"\0")]  # noqa: PTH119 (a text, not a file)

    def _inside(self, path: Path) -> str:
        """Return the path as the repository knows it, links of the disk left aside: they may have been others then."""
        inside = os.path.relpath(os.path.normpath(path), self.top)
        if Path(inside).parts[:1] == (os.pardir,):
            raise OSError(None, "it lies outside the git repository")
        return inside

    def _entry(self, inside: str) -> tuple[bytes, str]:
        """Return the mode and the id of what has this path."""
        listed = _git(self.top, "ls-tree", "-z", "--full-tree", self.commit, "--", inside)
        for entry in listed.split(b"\0"):
            facts, _, name = entry.partition(b"\t")
            if name == os.fsencode(inside):
                mode, _, identity = facts.split()
                return mode, identity.decode()
        raise FileNotFoundError


def revision_of(name: str, folder: Path) -> Revision:
    """Return the commit that git calls `name` (a branch, a tag, `HEAD~2`) in the repository that `folder` lies in.

    Raises `UsageError` if there is no git, no repository, or no such commit.
    """
    if not name or name.startswith("-"):
        raise UsageError(f"`{name}` is not a git revision", help="write `git:REV`, such as `git:HEAD` or `git:main`")
    top = Path(os.fsdecode(_git(folder, "rev-parse", "--show-toplevel")).removesuffix("\n"))
    try:
        commit = _git(folder, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    except UsageError:
        raise UsageError(
            f"the git repository {top} has no revision `{name}`",
            help="see `git branch --all`; if only the last commit was cloned, fetch the others first",
        ) from None
    return Revision(top, commit.decode().strip(), name)


def _git(folder: Path, *arguments: str) -> bytes:
    """Return what git prints; it is run without a shell, a pager, a hook, a filter or the network."""
    program = shutil.which("git")
    if program is None:
        raise UsageError("git was not found", help="install git, or name two files")
    options = ("--no-pager", "-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit")
    environment = {name: value for name, value in os.environ.items() if name not in _WHEREABOUTS}
    try:
        git = subprocess.run(
            [program, *options, *arguments],
            cwd=folder,
            env=environment | _HARMLESS,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise UsageError("git does not answer", help="name two files instead") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"git cannot be run in {folder}: {error}", help="name two files instead") from None
    if git.returncode != 0:
        reason = git.stderr.decode(errors="replace").strip().removeprefix("fatal: ") or f"exit code {git.returncode}"
        raise UsageError(f"git cannot read {folder}: {reason}", help="name two files instead")
    return git.stdout
