"""Whose memory an agent has: that of a name, which the environment or a person's own file gives, or of its folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from bub.base.failures import explain_os_error
from bub.base.locate import AGENT_VARIABLE, FILE_NAME, bub_home, check_agent
from bub.errors import UsageError

KEY = "agents"
"""The key of a person's own file: `{NAME: [FOLDER, …]}`."""

_MOST_BYTES = 1_000_000
# It reads nothing but text, so that a folder called `no` or `1` is one.
_LOADER: Any = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader


class Agent(msgspec.Struct, frozen=True):
    """Whose memory is used: `name` is "" for that of the folder, and `by` what gives the name, a variable or a file."""

    name: str = ""
    by: str = ""


def memory_of(workspace: Path, environ: Mapping[str, str]) -> str:
    """Return whose memory an agent has, as a text: its name, if it has one, else its workspace's real path."""
    name = find_agent(workspace, environ).name
    return f"agent:{name}" if name else os.path.realpath(workspace)


def find_agent(workspace: Path, environ: Mapping[str, str]) -> Agent:
    """Return which agent works in a folder, and why: `BUB_AGENT`, else `agents` in the person's own file.

    `environ` is that of the process, and no other file is asked: a folder's file or `.env` could take another agent's
    memory. What a file says is read once in a process, so that an agent never changes while it works. Raises
    `UsageError` for what is no name, and if the person's own file cannot be read.
    """
    if name := environ.get(AGENT_VARIABLE, ""):
        check_agent(name)
        return Agent(name, AGENT_VARIABLE)
    try:
        own = bub_home(environ) / FILE_NAME
    except UsageError:
        return Agent()
    return _find_in_file(own, os.path.realpath(workspace))


def real_folder(said: str) -> str | None:
    """Return the real path of a folder in `agents`; None for one that is another folder in each folder."""
    path = os.path.expanduser(said)  # noqa: PTH111 (it never raises)
    return os.path.realpath(path) if Path(path).is_absolute() and "\0" not in path else None


@cache
def _find_in_file(own: Path, workspace: str) -> Agent:
    names = [name for name, folders in _read(own).items() if workspace in map(real_folder, folders)]
    if len(names) > 1:
        problem = f"{own} gives {workspace} two names: {', '.join(names)}"
        raise UsageError(problem, help=f"leave it in one of them, below `{KEY}`")
    if not names:
        return Agent()
    check_agent(names[0])
    return Agent(names[0], str(own))


def _read(own: Path) -> dict[str, list[str]]:
    """Read `agents` of a person's own file. What is wrong in its form, `bub validate` tells with its place."""
    if not os.path.isfile(own):  # noqa: PTH113 (it never raises)
        return {}
    try:
        with own.open("rb") as file:
            text = file.read(_MOST_BYTES)
        if KEY.encode() not in text:
            return {}
        said = yaml.load(text, Loader=_LOADER)
    except OSError as error:
        raise _unreadable(own, explain_os_error(error)) from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(own, "it is not YAML") from error
    agents = said.get(KEY) if isinstance(said, dict) else None
    if not agents:
        return {}
    if not isinstance(agents, dict) or not all(map(_is_list_of_texts, agents.values())):
        raise _unreadable(own, f"`{KEY}` is no mapping of names to lists of folders")
    return agents


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _unreadable(own: Path, why: str) -> UsageError:
    """Return the error of a file that may name an agent: to go on would be with another memory than before."""
    remedy = f"correct it (`bub validate {own}` shows what is wrong), or set {AGENT_VARIABLE}"
    return UsageError(f"nobody knows which agent works here: {own} cannot be read: {why}", help=remedy)
