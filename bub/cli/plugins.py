"""`bub plugins`: which plugins are installed, listed and loaded, by profile, and why one is not; and getting some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from bub.cli.opening import open_framework
from bub.cli.options import options_of, workspace_of
from bub.cli.output import show_json
from bub.cli.packages import list_plugins, person_for, request_for
from bub.cli.terminal import printable
from bub.plugins.plugin_set import PluginStatus
from bub.setup.packages.adding import add

app = typer.Typer(rich_markup_mode=None, add_completion=False, invoke_without_command=True)

_Names = Annotated[
    list[str],
    typer.Argument(metavar="NAME…", help="A package's name, a .whl file, a folder, or git+https://…#subdirectory=…"),
]
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]
_Build = Annotated[bool, typer.Option("--build", help="Build packages that are no wheels, which runs their code.")]


@app.callback()
def plugins(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False,
) -> None:
    """Show every plugin that is installed or listed, its state, where it comes from, and why.

    A file whose routes name several profiles has a list for each: a plugin is called only for profiles that list it.
    """
    if ctx.invoked_subcommand is not None:
        return
    framework = open_framework(options_of(ctx), routed=False)
    reports = {profile: framework.seen_by(profile).plugin_report() for profile in framework.profiles}
    if as_json:
        every = [(profile, status) for profile, report in reports.items() for status in report]
        show_json([{"profile": profile, **msgspec.structs.asdict(status)} for profile, status in every], default=str)
        return
    for number, (profile, report) in enumerate(reports.items()):
        if len(reports) > 1:
            print(*([""] if number else []), f"profile {printable(profile)}", sep="\n")
        _print_report(report)


@app.command("add")
def add_plugins(
    ctx: typer.Context, names: _Names, build: _Build = False, yes: _Yes = False, dry_run: _DryRun = False
) -> int:
    """Install packages that bring plugins, list these in a profile, and set them up.

    Bub shows first what a package brings and what it can reach, and runs nothing of it before you say yes.
    """
    person = person_for(yes=yes, dry_run=dry_run)
    options = options_of(ctx)
    request = request_for("add", names, build=build, dry_run=dry_run)
    try:
        added = add(names, workspace_of(options), request, person)
    except KeyboardInterrupt as stop:
        stop.add_note("nothing was installed")
        raise
    return list_plugins(options, added, yes=yes) if added else 0


def _print_report(report: Sequence[PluginStatus]) -> None:
    names = max((len(status.name) for status in report), default=0)
    states = max((len(status.state) for status in report), default=0)
    for status in report:
        more = "  ".join(str(part) for part in (status.source, status.detail) if part)
        print(printable(f"{status.name:<{names}}  {status.state:<{states}}  {more}".rstrip()))
