"""`bub help`: what a command does and which options it has, as its `--help` prints it."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from bub.base.diagnostics import did_you_mean
from bub.errors import UsageError


def help_command(
    ctx: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND]...", help="Such as run, or tape show.")
    ] = None,
) -> None:
    """Explain a command, as its --help does; without one, list all commands."""
    shown: Any = ctx.find_root()
    for name in command or ():
        shown = _open(shown, name)
    typer.echo(shown.get_help())


def _open(above: Any, name: str) -> Any:
    """Return the context of a command below another one, in which nothing is run; `UsageError` if there is none."""
    group = above.command
    if not isinstance(group, TyperGroup):
        raise UsageError(f"`{above.command_path}` has no commands of its own", help=f"type `bub help {_words(above)}`")
    if above.parent is None:  # where plugins bring commands
        _, found, _ = group.resolve_command(above, [name])
    else:
        found = group.commands.get(name)
    if found is None:
        near = did_you_mean(name, list(group.commands))
        raise UsageError(
            f"there is no command `{above.command_path} {name}`", help=near or f"see `bub help {_words(above)}`"
        )
    return found.make_context(name, [], parent=above, resilient_parsing=True)


def _words(context: Any) -> str:
    return str(context.command_path).partition(" ")[2]
