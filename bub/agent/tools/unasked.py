"""Commands that run without a question, since the profile lists how they begin: which words run.

What is compared is what runs: a program that was looked up, with these words, and no shell reads them once more.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trio

from bub.agent.tools.git import plain_git
from bub.agent.tools.reach import Reach
from bub.plugins.simple_commands import END, Words, is_git, read_command
from bub.tools import Tool, ToolContext, ToolError, ToolPolicy

_PIECES = re.compile(r"[:,]")
"""What separates a path from other things in a word, as in `HEAD:.env`."""


async def find_unasked(tool: Tool, arguments: Mapping[str, Any], policy: ToolPolicy, context: ToolContext) -> Words:
    """Return the words to run if a command needs no question; none if it needs one."""
    words = read_command(str(arguments.get(tool.command) or "")) if tool.command is not None else None
    if words is None:
        return ()
    beginning, cwd = policy.find_beginning(tool, words), str(arguments.get("cwd") or ".")
    if not beginning or (beginning[-1] == END and cwd != "."):  # who says yes to a whole command means it where it ran
        return ()
    return await trio.to_thread.run_sync(_look_up, words, len(beginning), cwd, context)


def _look_up(words: Words, known: int, cwd: str, context: ToolContext) -> Words:
    """Return the words with the path of the program, if it may be run, and the words behind those `known` be read."""
    reach = Reach.of(context)
    try:
        place = reach.place(cwd)
        with place.folder():
            program = _find_program(words[0], place.path, reach)
            for word in words[known:]:
                for piece in {word, *_PIECES.split(word)} - {""}:
                    _check_path(piece, place.path, reach)
    except (ToolError, OSError, ValueError):
        return ()
    if program is None or (is_git((os.path.realpath(program),)) and not is_git(words)):  # git by another name
        return ()
    found = (program, *words[1:])
    return plain_git(found, known, place.path) if is_git(words) else found


def _find_program(name: str, folder: Path, reach: Reach) -> str | None:
    """Return the path of a program; one that the agent could have written is found only if the entry says its path."""
    if "/" in name:
        is_where_it_seems = name.startswith("/") or folder == reach.workspace
        return shutil.which(str(reach.workspace / name)) if is_where_it_seems else None
    roots = (reach.workspace, *reach.listed)
    for entry in os.environ.get("PATH", os.defpath).split(os.pathsep):
        real = Path(os.path.realpath(entry))
        if Path(entry).is_absolute() and not any(real.is_relative_to(root) for root in roots):
            found = shutil.which(name, path=entry)
            if found is not None:
                return found
    return None


def _check_path(word: str, folder: Path, reach: Reach) -> None:
    """Raise `ToolError` for what would be a path that `fs.read` and `fs.list` refuse."""
    place = reach.place(str(folder / word))
    if place.is_folder:
        with place.folder():
            return
    if os.path.lexists(place.path):
        with place.parent() as parent:
            place.open(parent)[0].close()
