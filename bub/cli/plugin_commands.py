"""Commands that the plugins of the profile bring, looked up when a name is not one of Bub's own."""

from __future__ import annotations

import typer
from typer.core import TyperCommand, TyperGroup

from bub.base.diagnostics import did_you_mean
from bub.cli.opening import open_framework
from bub.cli.options import Options
from bub.cli.table import COMMANDS
from bub.errors import BubError, UsageError


def plugin_command(name: str, options: Options) -> TyperCommand | TyperGroup:
    """Return the command `name` of a plugin of the profile; `UsageError` when there is none.

    A folder that is not trusted is not asked about here: a slip of the finger must not end in that question.
    """
    known: list[str] = list(COMMANDS)
    way_out = "see `bub --help`, and `bub plugins` for the plugins of the profile"
    try:
        app = open_framework(options, ask=False).create_cli_app()
    except BubError as error:
        way_out = f"Bub could not ask the plugins for this command: {error}"
    else:
        group = typer.main.get_group(app)
        command = group.commands.get(name)
        if isinstance(command, TyperCommand | TyperGroup):
            return command
        known += group.commands
    raise UsageError(f"there is no command `{name}`", help=did_you_mean(name, known) or way_out)
