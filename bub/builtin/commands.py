"""Comma commands: a message that begins with the prefix calls a tool by its name, and no model is asked."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import perf_counter
from typing import Any
from uuid import uuid4

from bub.builtin.task import Framework, Run, Task
from bub.builtin.toolcalls import ToolCall, ToolOutcome
from bub.envelope import field_of
from bub.tools import BY_NAME, ToolBox, ToolError

DEFAULT_PREFIX = ","

OWN_TERMINAL = "cli"
"""The channel of a person's own terminal: a command typed there is its own yes (DESIGN §6)."""


@dataclass(frozen=True, slots=True)
class Command:
    """A line that calls a tool: `name`, its arguments as they were written, and the whole `line` without the prefix."""

    line: str
    name: str
    positional: tuple[str, ...] = ()
    named: Mapping[str, str] = field(default_factory=dict)


def prefix_of(settings: Mapping[str, Any]) -> str:
    """What commands begin with: the setting `command_prefix`, without blanks, else a comma (BEHAVIOURS A1)."""
    prefix = settings.get("command_prefix")
    return prefix if isinstance(prefix, str) and prefix and not any(map(str.isspace, prefix)) else DEFAULT_PREFIX


def command_line(text: Any, prefix: str) -> str | None:
    """The command in a text, without its prefix; None where the text is none (BEHAVIOURS A1)."""
    if not isinstance(text, str):
        return None
    stripped = text.strip()
    return stripped.removeprefix(prefix).strip() if stripped.startswith(prefix) else None


def parse_command(line: str) -> Command:
    """A line in words as a shell has them; `name=value` names an argument (BEHAVIOURS A3).

    Raises `ToolError` when it is empty, a quote is not closed, or something unnamed follows something named.
    """
    if not line:
        raise ToolError("the command is empty", help="`help` lists those there are", kind="invalid_input")
    try:
        name, *words = shlex.split(line)
    except ValueError:
        raise ToolError("a quote is not closed", help="close it, or write `\\'`", kind="invalid_input") from None
    positional: list[str] = []
    named: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key.isidentifier():
            if key in named:
                raise ToolError(f"`{key}` is given twice", kind="invalid_input")
            named[key] = value
        elif named:
            what = f"`{word}` stands behind `{next(reversed(named))}=…`"
            raise ToolError(what, help="put what has no name first", kind="invalid_input")
        else:
            positional.append(word)
    return Command(line, name, tuple(positional), named)


def call_of(line: str, box: ToolBox) -> tuple[str, dict[str, Any]]:
    """The tool that a command calls, and its arguments, unchecked.

    A name that is no tool goes to the shell, the whole line as it is, where the profile allows `bash` by name; else
    it is a `ToolError` with names that are close (BEHAVIOURS A2, decision 9).
    """
    try:
        command = parse_command(line)
    except ToolError:
        name = line.split(maxsplit=1)[0] if line else ""
        if not name or name in box.tools or not _has_shell(box):
            raise
        return BY_NAME, {"command": line}  # the shell reads quotes in its own way
    if command.name not in box.tools and _has_shell(box):
        return BY_NAME, {"command": line}
    tool = box.find(command.name)
    return tool.name, tool.from_words(command.positional, command.named)


def _has_shell(box: ToolBox) -> bool:
    return BY_NAME in box.usable()


class CommandRun(Run):
    """The answer to one comma command. `line` is the command without its prefix."""

    def __init__(self, framework: Framework, task: Task, line: str) -> None:
        super().__init__(framework, task, framework.tools)
        self._line = line
        self._name = line.split(maxsplit=1)[0] if line else ""
        self._began: float | None = None
        self._outcome: ToolOutcome | None = None

    async def _begin(self) -> None:
        task = self._task
        if self._tape is not None:
            await self._tape.ensure_bootstrap_anchor(task.session_id, self._framework.workspace)
        self._began = perf_counter()
        try:
            self._name, arguments = call_of(self._line, self._box)
        except ToolError as error:
            said, ok = f"error: {error}", False  # BEHAVIOURS A5
        else:
            caller = self._caller(from_person=field_of(task.message, "channel") == OWN_TERMINAL)
            call = ToolCall(f"command-{uuid4().hex[:12]}", self._name, arguments, self._line)
            outcome = await caller.call(call, self._take_outcome)
            said, ok = outcome.content, not outcome.is_error
        self._note("ok" if ok else "error", said)
        self._next = None
        await self._journal.write_last()
        self._tell("text", delta=said)
        self._tell("final", finish_reason="stop" if ok else "error", steps=0, ok=ok)

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
