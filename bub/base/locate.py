"""Finding the pipeline file that a command works on, whether the user has named it, and Bub's own folder."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from bub.base.failures import explain_os_error
from bub.errors import UsageError

FILE_NAME = "pipelines.yaml"

DOTENV = ".env"
"""The file beside a pipeline file with variables of its own."""

AGENT_VARIABLE = "BUB_AGENT"
"""What gives the agent of a process its name."""

_AGENT = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"

IS_PRIVATE = "it is one of Bub's own files, which only your own pipeline file may name"
"""Why a file that `leads_home` is not read, as a clause."""


class Found(NamedTuple):
    """Which file was found; `path` is None for the shipped default pipeline.

    `consent`: the user named the file, or it is the user's own, so it may run without a question.
    `workspace_file`: it depends on the folder that the user is in, so its own folder has to be trusted first.
    """

    path: Path | None
    consent: bool
    workspace_file: bool


def bub_home(environ: Mapping[str, str]) -> Path:
    """The folder of Bub's own files as an absolute path: `$BUB_HOME`, else `~/.bub`. It need not exist yet."""
    try:
        return Path(environ.get("BUB_HOME") or "~/.bub").expanduser().absolute()
    except RuntimeError as error:
        raise UsageError("your home folder cannot be found", help="set BUB_HOME to a folder for Bub's files") from error


def check_agent(name: str) -> None:
    """Raise `UsageError` for what cannot be the name of an agent."""
    if not re.fullmatch(_AGENT, name):
        problem = "the name of an agent has letters, digits, `_`, `.` and `-`, and begins with a letter or digit"
        raise UsageError(f"`{name}` cannot be the name of an agent", help=f"{problem}; 64 at most")


def lock_of(pipeline: Path) -> Path:
    """The lock of a pipeline file: `pylock.bub.toml` beside it. It need not exist.

    That is for `pipelines.yaml`; a file of another name has one of its own, `pylock.bub-NAME.toml` (PEP 751 wants a
    name between two dots).
    """
    stem = "" if pipeline.name == FILE_NAME else f"-{pipeline.stem.replace('.', '-')}"
    return pipeline.with_name(f"pylock.bub{stem}.toml")


def is_lock(name: str) -> bool:
    """Whether a file of this name is the lock of a pipeline file, also if a disk takes capitals for small letters."""
    folded = name.casefold()
    return folded.startswith("pylock.bub") and folded.endswith(".toml")


def remedy_for(path: Path | None, remedy: str) -> str:
    """What to do about a file that cannot be written: a `remedy`, and for one of Bub's own files another folder too."""
    try:
        is_own = path is not None and path.absolute().is_relative_to(bub_home(os.environ))
    except (UsageError, OSError):
        return remedy
    return f"{remedy}, or set BUB_HOME to a folder that you can write to" if is_own else remedy


def leads_home(path: Path, folder: Path | None) -> bool:
    """Whether a file in `folder` names one of Bub's own files with `path`, by its name or through a link.

    Bub's own folder is that of the real environment, so that no `.env` can choose another. A file that lies in it may
    name all that is there. Any other may not: a stranger's folder would read its user's keys.
    """
    try:
        home, real = Path(os.path.realpath(bub_home(os.environ))), Path(os.path.realpath(path))
        asking = Path(os.path.realpath(folder)) if folder is not None else None
    except (UsageError, OSError, ValueError):  # there is no home, or no file can have this name
        return False
    if asking is not None and (asking == home or _is_same(asking, home)):  # a disk may take capitals for small letters
        return False
    is_inside = asking is not None and asking.is_relative_to(home)
    if _is_same(real.parent, home) or (real.is_relative_to(home) and not is_inside):
        return True
    # The owner may keep these two elsewhere, and have a link to them in Bub's own folder.
    if _is_same(real, home / DOTENV):
        return True
    is_link = asking is None or real != asking / path.name
    return is_link and _is_same(real, home / FILE_NAME)


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # one of them is not there, so they are two
        return False


def find_pipeline(config: Path | None, workspace: Path, environ: Mapping[str, str]) -> Found:
    """Find the pipeline file: `config`, `$BUB_CONFIG`, the workspace's, that of `$BUB_HOME`, the shipped default.

    The first that is there counts: when it cannot be used this is an error, and never is another taken in its
    stead. `environ` has to be the real environment, without what a `.env` file adds: a workspace must not be able to
    consent for its user. Nor is a relative `$BUB_CONFIG` consent: in each folder it leads to another file.
    Raises `UsageError` when a named file or the workspace does not exist.
    """
    if not os.path.isdir(workspace):  # noqa: PTH112 (unlike `Path.is_dir`, it never raises)
        what = "is not a folder" if _is_there(workspace) else "does not exist"
        raise UsageError(f"the workspace {workspace} {what}", help="name an existing folder with --workspace")
    if config is not None:
        return Found(_check_named(config, "--config"), consent=True, workspace_file=False)
    own = bub_home(environ) / FILE_NAME
    if environ.get("BUB_CONFIG"):
        named = _check_named(Path(environ["BUB_CONFIG"]), "BUB_CONFIG")
        return Found(named, consent=True, workspace_file=False) if named.is_absolute() else _nearby(named, own)
    nearby = workspace / FILE_NAME
    if _is_there(nearby):
        _check_file(nearby, "repair or remove it, or name another file with --config")
        return _nearby(nearby, own)
    if _is_there(own):
        _check_file(own, "repair or remove it, or name another file with --config")
        return Found(own, consent=True, workspace_file=False)
    return Found(None, consent=True, workspace_file=False)


def _nearby(path: Path, own: Path) -> Found:
    """A file that the user's whereabouts led to: it may run at once only where it lies in the user's own folder."""
    is_own = os.path.realpath(own.parent) == os.path.realpath(path.parent)
    return Found(path, consent=is_own, workspace_file=not is_own)


def _check_named(path: Path, by: str) -> Path:
    """The file that the user named, checked to be one."""
    try:
        path = path.expanduser()
    except RuntimeError as error:
        raise UsageError(f"{path} names a home folder that does not exist", help=f"correct {by}") from error
    if not _is_there(path):
        raise UsageError(f"{path} does not exist", help=f"correct {by}, or leave it out for the shipped default")
    _check_file(path, f"correct {by}")
    return path


def _is_there(path: Path) -> bool:
    """Whether anything has this name, a dangling link included."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise UsageError(
            f"{path} cannot be looked at: {explain_os_error(error)}", help="correct its permissions"
        ) from error
    except ValueError as error:
        raise UsageError(f"{str(path)!r} is not a file name", help="name another file") from error
    return True


def _check_file(path: Path, remedy: str) -> None:
    """Raise `UsageError` unless the file can be read as one."""
    if os.path.isdir(path):  # noqa: PTH112 (as above)
        raise UsageError(f"{path} is a folder, not a pipeline file", help=remedy)
    try:
        # Asked before opening it: opening a pipe waits for somebody to write to it.
        if not stat.S_ISREG(path.stat().st_mode):
            raise UsageError(f"{path} is not a regular file", help=remedy)
        path.open("rb").close()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {explain_os_error(error)}", help=remedy) from error
