"""Runs comma commands: a message that begins with the prefix calls a tool by its name, and no model is asked.

`bub/channels/commands.py` says how one is written."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from time import perf_counter
from types import MappingProxyType
from typing import Any
from uuid import uuid4

from bub.agent.calls.caller import ToolCall, ToolOutcome
from bub.agent.marks.session import SessionMarks
from bub.agent.task import Run, Task
from bub.base.diagnostics import is_slip
from bub.base.surfaces import Surface
from bub.channels.commands import command_line, parse_command, prefix_of
from bub.plugins.servers import server_of
from bub.plugins.shipped import BY_NAME
from bub.plugins.view import ProfileView
from bub.tools import ToolBox, ToolError

HEARD = frozenset({"compact", "tape.handoff"})
"""The commands whose words come into the conversation: it holds a stranger's words from then on."""


FORMER_NAMES = MappingProxyType(
    {
        "tools": "help",
        "tool": "help",
        "tool.describe": "help",
        "tape": "tape.info",
        "skills": "skill",
        "skills.list": "skill",
        "skills.describe": "skill",
    }
)
"""What the older Bub called some commands (BEHAVIOURS A7): a tool that really has such a name goes before it."""


def call_of(line: str, box: ToolBox) -> tuple[str, dict[str, Any]]:
    """The tool that a command calls, and its arguments, unchecked.

    A name that is no tool goes to the shell, the whole line as it is, if the profile allows `bash` by name; else
    it is a `ToolError` with names that are close (BEHAVIOURS A2, decision 9). A slip for a tool's name is one, too.
    """
    try:
        command = parse_command(line)
    except ToolError:
        name = line.split(maxsplit=1)[0] if line else ""
        if not name or name in box.tools or not _has_shell(box):
            raise
        return BY_NAME, {"command": line}  # the shell reads quotes in its own way
    name = command.name if command.name in box.tools else FORMER_NAMES.get(command.name, command.name)
    if name not in box.tools and _has_shell(box) and not _is_slip(line, box):
        return BY_NAME, {"command": line}
    tool = box.find(name)
    if command.given is not None:
        return tool.name, dict(command.given)
    return tool.name, tool.from_words(command.positional, command.named)


def _has_shell(box: ToolBox) -> bool:
    return BY_NAME in box.usable()


def _is_slip(line: str, box: ToolBox) -> bool:
    """Whether a line is a slip for the name of a tool: one word, one letter off, and no program is called so."""
    return any(is_slip(line, name) for name in box.usable()) and shutil.which(line) is None


class CommandRun(Run):
    """The answer to one comma command. `line` is the command without its prefix."""

    def __init__(self, framework: ProfileView, task: Task, line: str) -> None:
        super().__init__(framework, task, framework.tools)
        self._line = line
        self._name = line.split(maxsplit=1)[0] if line else ""
        reads = any(writer.surface is Surface.MCP for writer in framework.writers)
        self._held = SessionMarks(self._tape, keep=reads or self._name in HEARD)  # of others no model gets anything
        self._began: float | None = None
        self._outcome: ToolOutcome | None = None

    async def _begin(self) -> None:
        task = self._task
        if self._tape is not None:
            await self._tape.ensure_bootstrap_anchor(task.session_id, self._framework.workspace)
        await self._held.recall()
        await self._note_writers()
        self._began = perf_counter()
        if server_of(self._name) is not None:
            await self._know_servers(for_people=True)
        try:
            self._name, arguments = call_of(self._line, self._box)
        except ToolError as error:
            said, ok = f"error: {error}", False  # BEHAVIOURS A5
        else:
            caller = self._caller(from_person=self._is_typed())
            call = ToolCall(f"command-{uuid4().hex[:12]}", self._name, arguments, self._line)
            outcome = await caller.call(call, self._take_outcome)
            said, ok = outcome.content, not outcome.is_error
        self._note("ok" if ok else "error", said)
        self._next = None
        await self._journal.write_last()
        self._tell("text", delta=said)
        media = {"media": self._outcome.parts} if self._outcome is not None and self._outcome.parts else {}
        self._tell("final", finish_reason="stop" if ok else "error", steps=0, ok=ok, **media)

    def _is_typed(self) -> bool:
        """Whether the operator typed this very command, which is then its own yes (DESIGN §6, §13).

        What a plugin makes of something else that was typed is not.
        """
        typed = self._framework.typed
        return typed is not None and command_line(typed, prefix_of(self._framework.settings)) == self._line

    def _take_outcome(self, outcome: ToolOutcome) -> None:
        self._outcome = outcome

    def _note(self, status: str, output: str) -> None:
        """A command is noted also where it fails or is cancelled, secrets covered (BEHAVIOURS A6)."""
        if self._began is None:
            return
        self._journal.event(
            "command",
            raw=self._line,
            name=self._name,
            status=status,
            elapsed_ms=round((perf_counter() - self._began) * 1000, 3),
            output=output,
            date=datetime.now(UTC).isoformat(),
        )

    async def _leave(self, error: Exception | None) -> None:
        self._note(
            "cancelled" if error is None else "error", self._outcome.content if self._outcome is not None else ""
        )
        await super()._leave(error)
