"""How a comma command is written: the prefix, the name of a tool, and its arguments.

Running one is the agent's business (`bub/agent/commands.py`).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import msgspec

from bub.tools import ToolError

DEFAULT_PREFIX = ","

_QUIT = ("quit", "exit")


class CommaCommand(msgspec.Struct, frozen=True):
    """A line that calls a tool: `name`, its arguments as they were written, and the whole `line` without the prefix.

    `given` are the arguments of one that has them as a JSON object.
    """

    line: str
    name: str
    positional: tuple[str, ...] = ()
    named: Mapping[str, str] = msgspec.field(default_factory=dict)
    given: Mapping[str, Any] | None = None


def prefix_of(settings: Mapping[str, Any]) -> str:
    """Return what commands begin with: the setting `command_prefix`, without blanks, else a comma (BEHAVIOURS A1)."""
    prefix = settings.get("command_prefix")
    return prefix if isinstance(prefix, str) and prefix and not any(map(str.isspace, prefix)) else DEFAULT_PREFIX


def command_line(text: Any, prefix: str) -> str | None:
    """Return the command in a text, without its prefix; None if the text is not a command (BEHAVIOURS A1)."""
    if not isinstance(text, str):
        return None
    stripped = text.strip()
    return stripped.removeprefix(prefix).strip() if stripped.startswith(prefix) else None


def write_command(prefix: str, name: str, arguments: Mapping[str, Any]) -> str:
    """Write a command with all its arguments as JSON; `parse_command` reads the very same out of it."""
    return f"{prefix}{name} {msgspec.json.encode(arguments, enc_hook=str).decode()}"


def parse_command(line: str) -> CommaCommand:
    """Parse a line into words as a shell does; `name=value` names an argument (BEHAVIOURS A3).

    What follows the name may be one JSON object instead, with all arguments by their names.

    Raises `ToolError` when it is empty, a quote is not closed, or something unnamed follows something named.
    """
    if not line:
        raise ToolError("the command is empty", help="`help` lists those there are", kind="invalid_input")
    called, *rest = line.split(maxsplit=1)
    if rest and (given := _object_in(rest[0])) is not None:
        return CommaCommand(line, called, given=given)
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
            what = f"`{word}` comes after `{next(reversed(named))}=…`"
            raise ToolError(what, help="put what has no name first", kind="invalid_input")
        else:
            positional.append(word)
    return CommaCommand(line, name, tuple(positional), named)


def _object_in(text: str) -> Mapping[str, Any] | None:
    """The JSON object that a text is; None if it is none."""
    if not text.startswith("{"):
        return None
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    return found if isinstance(found, dict) else None


def is_quit(content: str, settings: Mapping[str, Any]) -> bool:
    """Whether a text is the command that ends what a session does."""
    line = command_line(content, prefix_of(settings))
    return line is not None and line.split(maxsplit=1)[:1] in ([word] for word in _QUIT)
