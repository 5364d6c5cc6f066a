"""`bub` itself: the global options, and a group that imports a command only when it is called."""

# Without `from __future__ import annotations`: of texts, Typer would evaluate each four times, at each start.

import gc
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from bub import __version__
from bub.cli.exits import USAGE, StoppedError
from bub.cli.options import Options, keep, name_agent, options_of
from bub.cli.table import COMMANDS, PLUGIN_COMMANDS, load
from bub.gateway.hangup import let_hangup_end

_SHARED = frozenset(Options.__annotations__)

_OBEYS_HANGUP = frozenset({"gateway"})
"""The commands to which SIGHUP means something; it ends the others, which clean up as after SIGTERM."""

# Typer carries its own copy of click, whose classes have no public name: hence `Any` for contexts and formatters.


class LazyGroup(TyperGroup):
    """The commands of the table, then those that were registered, then those of the profile's plugins."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*COMMANDS, *self.commands]

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | TyperGroup | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            brought = super().get_command(ctx, cmd_name)
            return brought if isinstance(brought, TyperCommand | TyperGroup) else None
        command = command_of(cmd_name, load(entry.target))
        parts = (command, *command.commands.values()) if isinstance(command, TyperGroup) else (command,)
        for each in parts:
            each.params.extend(param for param in self.params if param.name in _SHARED)
        return command

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:  # Typer makes an exit code of it, and nothing would be said any more
            notes = getattr(stop, "__notes__", ())
            if not notes:
                raise
            raise StoppedError(f"stopped; {'; '.join(notes)}") from None

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str, TyperCommand | TyperGroup, list[str]]:
        name = args[0]
        if name not in _OBEYS_HANGUP:
            let_hangup_end()
        command = self.get_command(ctx, name) or load(PLUGIN_COMMANDS)(name, options_of(ctx))
        if not gc.isenabled():  # so it is while Bub is being loaded; what is loaded stays, and is no garbage later
            gc.freeze()
            gc.enable()
        return name, command, args[1:]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            brought = [(name, command.get_short_help_str()) for name, command in self.commands.items()]
            formatter.write_dl([*((name, entry.help) for name, entry in COMMANDS.items()), *brought])


def command_of(name: str, target: Any) -> TyperCommand | TyperGroup:
    """Make a command of a function, or of a Typer app with its own commands."""
    app = target if isinstance(target, typer.Typer) else typer.Typer(rich_markup_mode=None, add_completion=False)
    if app is not target:
        app.command(name)(target)
        command = typer.main.get_command(app)
    else:
        command = typer.main.get_group(app)
    assert isinstance(command, TyperCommand | TyperGroup)
    command.name = name
    return command


def command_line(args: Sequence[str] | None = None) -> int:
    """Run one command line (`sys.argv` by default) and return its exit code; errors are raised as they are."""
    result = command_of("bub", _app())(args=args, prog_name="bub", standalone_mode=False)
    return result if isinstance(result, int) else 0


def assemble(brought: typer.Typer, chosen: Mapping[str, str | None]) -> typer.Typer:
    """Make one application of Bub's own commands and those that plugins `brought`.

    `chosen` are the global options that hold unless a command line says others.
    """
    app = _app({name: value for name, value in chosen.items() if value is not None})
    app.registered_commands += brought.registered_commands
    app.registered_groups += brought.registered_groups
    return app


def _app(chosen: Mapping[str, str] = MappingProxyType({})) -> typer.Typer:
    app = typer.Typer(
        cls=LazyGroup,
        rich_markup_mode=None,
        add_completion=False,
        invoke_without_command=True,
        context_settings={"help_option_names": ["-h", "--help"], "default_map": dict(chosen)},
        help="Agents whose turn is a file: check it, see it, run it.",
        epilog="Plugins bring commands of their own; `bub plugins` lists them.",
    )
    app.callback()(_global_options)
    return app


def _version(value: bool) -> None:
    if value:
        print(f"bub {__version__}")
        raise typer.Exit


def _global_options(
    ctx: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The pipeline file to use.",
            callback=keep,
            expose_value=False,
        ),
    ] = None,
    workspace: Annotated[
        Path | None,
        typer.Option(
            "--workspace",
            "-w",
            metavar="FOLDER",
            help="The folder to work in; the current one by default.",
            exists=True,
            file_okay=False,
            callback=keep,
            expose_value=False,
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The profile of the file to use.", callback=keep, expose_value=False),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Whose memory to use.", callback=name_agent, expose_value=False),
    ] = None,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and end.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help(), err=True)
        raise typer.Exit(USAGE)
