"""What a call has brought into the conversation, as its tool, its arguments and its result tell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from glob import has_magic
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bub.agent.marks.files import FileMarks
from bub.agent.marks.likely_secrets import holds_private_key, secret_in_command
from bub.agent.marks.marks import Marks, private, untrusted
from bub.agent.tools.reach import Reach
from bub.agent.tools.unified import DiffError, parse_diff
from bub.plugins.shipped import BY_NAME, SHIPPED_TOOLS
from bub.tools import Tool, ToolContext, ToolError

OUTPUT = "bash.output"

_PATCHES, _PATCH = "fs.patch", "patch"
"""The tool that names its files in a diff, and the argument that is one."""

RECALLS = frozenset({BY_NAME, OUTPUT, "subagent", "tape.search", "tape.anchors", "spill.read"})
"""Tools that can give again what came into this conversation, or into a file, before."""

_FOLDERS_OF_TOOLS = tuple(map(Path, ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/dev")))
"""Outside of the workspace, but the same on every machine: what a command names there is its program."""

_FETCHES = re.compile(
    r"://|(?:^|[\s;|&(`/])(?:curl|wget|xh|httpie|https?|lynx|w3m|elinks|ftp|sftp|scp|ssh|nc|ncat|socat|telnet|gh|glab)\s"
)
"""How a command looks that gets a text from elsewhere. As long as nothing untrusted has come, nobody hides that."""

_WORD = re.compile(r"[^\s'\"`;|&<>()=,]+")
_MOST_WORDS, _MOST_MATCHES = 200, 100


class Sources:
    """Tells what calls of one run have brought. `files` keeps the marks of files."""

    def __init__(self, context: ToolContext, files: FileMarks) -> None:
        self._context = context
        self._files = files

    async def of(self, tool: Tool, arguments: Mapping[str, Any], result: str) -> Marks:
        """Return the marks of a result. Raises `TapeError` if those of a file cannot be read."""
        labels = tool.assumed_labels
        marks = private(f"a private key, by {tool.name}") if holds_private_key(result) else Marks()
        if tool.name in (BY_NAME, OUTPUT):
            return marks | await self._of_command(arguments, result)
        if labels.brings is not None:
            marks |= untrusted(_describe_page(tool, arguments))
        for path in self.files_of(tool, arguments).values():
            marks |= await self._of_file(tool, path, result)
        if labels.reads is None or (tool.path is not None and tool.name in SHIPPED_TOOLS):
            return marks  # of what the shipped tools read, the place of the file tells
        return marks | private(f"what {tool.name} gave")

    def files_of(self, tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Path]:
        """Return the real paths of the files that a call works on by the names it gives; of those it may touch."""
        argument = _PATCH if tool.name == _PATCHES else tool.path
        given = arguments.get(argument) if argument is not None else None
        if not isinstance(given, str):
            return {}
        found, reach = {}, Reach.of(self._context)
        for name in _names_in(given) if tool.name == _PATCHES else [given]:
            with suppress(ToolError):
                found[name] = reach.place(name).path
        return found

    async def _of_file(self, tool: Tool, path: Path, result: str) -> Marks:
        marks = await self._files.of(path)
        if _is_folder(path):
            marks |= await self._files.shown_in(path, result)
        if tool.assumed_labels.reads is not None and self._is_private(path):
            marks |= private(str(path))
        return marks

    async def _of_command(self, arguments: Mapping[str, Any], result: str) -> Marks:
        command, cwd = str(arguments.get("command") or ""), str(arguments.get("cwd") or ".")
        marks, here = Marks(), self._workspace / cwd
        if self._is_private(here.resolve()):
            marks |= private(str(here))
        if secret_in_command(command):
            marks |= private(secret_in_command(command))
        if _FETCHES.search(f"{command} "):
            marks |= untrusted(f"what the command `{command}` fetched")
        for word in islice(_WORD.finditer(command), _MOST_WORDS):
            for path in _find(here, word[0]):
                marks |= await self._of_path(path)
        return marks | await self._files.shown_in(here.resolve(), result)

    async def _of_path(self, path: Path) -> Marks:
        """Return the marks of a file or folder that a command names."""
        marks = await self._files.of(path) if not _is_folder(path) else Marks()
        is_program = path == Path("/") or any(path.is_relative_to(folder) for folder in _FOLDERS_OF_TOOLS)
        return marks | private(str(path)) if self._is_private(path) and not is_program else marks

    def _is_private(self, path: Path) -> bool:
        """Whether a file lies outside of the workspace, or among Bub's own: tapes of other sessions, among others."""
        reach = Reach.of(self._context)
        if not path.is_relative_to(reach.workspace):
            return True
        return path.is_relative_to(reach.home) and not reach.workspace.is_relative_to(reach.home)

    @property
    def _workspace(self) -> Path:
        return self._context.workspace.resolve()


def _names_in(patch: str) -> list[str]:
    """The files that a diff names."""
    try:
        return [name for diff in parse_diff(patch) for name in (diff.old, diff.new) if name is not None]
    except DiffError:
        return []


def _find(here: Path, word: str) -> list[Path]:
    """The files and folders that a word of a command names, their links followed; of a pattern, in one folder."""
    real = []
    with suppress(OSError, RuntimeError, ValueError):
        named = here / Path(word).expanduser()
        found = islice(named.parent.glob(named.name), _MOST_MATCHES) if has_magic(named.name) else [named]
        for path in found:
            with suppress(OSError, RuntimeError):  # a link that leads nowhere
                real.append(path.resolve(strict=True))
    return real


def _is_folder(path: Path) -> bool:
    return path.is_dir()


def _describe_page(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """Say where a text comes from: the host of an address if the call has one."""
    for value in arguments.values():
        if isinstance(value, str) and "://" in value[:20]:
            try:
                host = urlsplit(value).hostname
            except ValueError:
                host = None
            if host:
                return f"a page from {host}"
    return f"what {tool.name} gave"
