"""Bub's own tools in the table of the reference, for plugins that put others in their place.

What is here is how they are called. Bub calls its own tools itself, under the profile's `tools:`.
"""

from __future__ import annotations

from typing import NoReturn

from bub_reference.errors import BubError, ErrorKind
from bub_reference.tools import ToolContext, tool


@tool(name="bash", context=True)
async def bash(
    cmd: str,
    cwd: str | None = None,
    timeout_seconds: int = 30,
    background: bool = False,
    *,
    context: ToolContext,
) -> str:
    """Run a command in a shell."""
    _refuse("bash")


@tool(name="bash.output", context=True)
async def bash_output(shell_id: str, offset: int = 0, limit: int | None = None, *, context: ToolContext) -> str:
    """Read what a command in the background has printed."""
    _refuse("bash.output")


@tool(name="bash.kill", context=True)
async def kill_bash(shell_id: str, *, context: ToolContext) -> str:
    """End a command in the background."""
    _refuse("bash.kill")


@tool(name="fs.read", context=True)
def fs_read(path: str, offset: int = 0, limit: int | None = None, *, context: ToolContext) -> str:
    """Read a text file."""
    _refuse("fs.read")


@tool(name="fs.write", context=True)
def fs_write(path: str, content: str, *, context: ToolContext) -> str:
    """Write a text file."""
    _refuse("fs.write")


@tool(name="fs.edit", context=True)
def fs_edit(path: str, old: str, new: str, start: int = 0, *, context: ToolContext) -> str:
    """Replace a text in a file."""
    _refuse("fs.edit")


@tool(name="tape.handoff", context=True)
async def tape_handoff(name: str = "handoff", summary: str = "", *, context: ToolContext) -> str:
    """Begin again behind this step, with a summary."""
    await context.tape.handoff(name=name, state={"summary": summary})
    return f"anchor added: {name}"


def _refuse(name: str) -> NoReturn:
    raise BubError(ErrorKind.TOOL, f"`{name}` is Bub's own tool: it is called in a turn, not by a plugin")
