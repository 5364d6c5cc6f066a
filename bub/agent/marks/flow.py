"""Decides whether a call could carry out what nobody was to have, and notes what each call brings (DESIGN §13)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import PurePath
from typing import Any

from bub.agent.marks.files import FileMarks
from bub.agent.marks.likely_secrets import holds_private_key, secret_in_command, secret_in_path
from bub.agent.marks.marks import Marks
from bub.agent.marks.session import SessionMarks
from bub.agent.marks.sources import RECALLS, Sources
from bub.base.confinement.value import reaches_outside, reads_private
from bub.plugins.shipped import BY_NAME
from bub.tools import Tool, ToolContext

_REPLACES = "fs.write"
"""The tool that leaves nothing of what a file was."""

Undo = Callable[[], Awaitable[None]]


class Flow:
    """What the calls of one run do to information. `held` is what the conversation holds, `files` what files do."""

    def __init__(self, held: SessionMarks, files: FileMarks, context: ToolContext) -> None:
        self._held = held
        self._files = files
        self._sources = Sources(context, files)
        self._confinement = context.confinement
        self._is_typed = context.from_person

    def find_reason(self, tool: Tool, arguments: Mapping[str, Any]) -> str:
        """Say why a person is to be asked about a call, whatever the profile says; "" if nothing speaks for that.

        A call reaches outside with what the model knows. One that also reads by itself, as a command does, needs no
        more than somebody who told the model what to call.
        """
        secret = self._name_secret(tool, arguments)
        if secret:
            return f"`{secret}` is likely a secret"
        labels, holds = tool.assumed_labels, self._held.now
        if labels.reaches is None or not holds.untrusted:
            return ""
        is_confined = tool.name == BY_NAME  # no plugin's tool is
        if is_confined and not reaches_outside(self._confinement):
            return ""
        if holds.private:
            return f"the conversation holds {holds}; this call could send that to others"
        if labels.reads is not None and (not is_confined or reads_private(self._confinement)):
            return f"the conversation holds {holds}; this call could read something private and send it to others"
        return ""

    def find_reason_to_keep_back(self, tool: Tool, arguments: Mapping[str, Any], result: str) -> str:
        """Say why a person is to be asked before the model gets a result; "" if nothing speaks for that."""
        if not holds_private_key(result) or self._name_secret(tool, arguments):
            return ""
        return "the model would get the private key that is in the result"

    async def note_writing(self, tool: Tool, arguments: Mapping[str, Any]) -> Undo:
        """Note that a call writes a file from this conversation; call what it returns if nothing was written after all.

        Raises `TapeError` if it cannot be noted.
        """
        paths = [] if tool.read_only else [*self._sources.files_of(tool, arguments).values()]
        before = {path: await self._files.of(path) for path in paths}
        after = Marks() if self._is_typed else self._held.now  # what the operator writes is theirs
        if tool.name != _REPLACES and not self._is_typed:
            for marks in before.values():
                after |= marks
        for path in paths:
            await self._files.note(path, after)

        async def undo() -> None:
            for path, marks in before.items():
                await self._files.note(path, marks)

        return undo

    async def take(self, tool: Tool, arguments: Mapping[str, Any], result: str) -> str:
        """Note what a result brings before the model gets it, and say where its text comes from if that is outside.

        Raises `TapeError` if it cannot be noted.
        """
        brought = await self._sources.of(tool, arguments, result)
        await self._held.add(brought)
        marks = self._held.now if tool.name in RECALLS else brought
        return ", ".join(source.what for source in marks.untrusted if not source.is_message)

    def _name_secret(self, tool: Tool, arguments: Mapping[str, Any]) -> str:
        if tool.command is not None:
            return secret_in_command(str(arguments.get(tool.command) or ""))
        for name, real in self._sources.files_of(tool, arguments).items():
            if secret_in_path(PurePath(name)) or secret_in_path(real):
                return name
        return ""
