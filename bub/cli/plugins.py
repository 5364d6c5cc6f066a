"""`bub plugins`: which plugins are installed, listed and loaded, by profile, and why one is not; and getting some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from bub.cli.opening import open_framework
from bub.cli.options import options_of, workspace_of
from bub.cli.output import show_json
from bub.cli.packages import list_plugins, nothing_half, person_for, request_for, unlist_plugins
from bub.cli.terminal import printable
from bub.plugins.plugin_set import PluginStatus
from bub.setup.packages.adding import add
from bub.setup.packages.removing import remove
from bub.setup.packages.renewing import sync, update

app = typer.Typer(rich_markup_mode=None, add_completion=False, invoke_without_command=True)

_Names = Annotated[
    list[str],
    typer.Argument(metavar="NAME…", help="A package's name, a .whl file, a folder, or git+https://…#subdirectory=…"),
]
_Added = Annotated[list[str] | None, typer.Argument(metavar="[NAME]…", help="Packages, or plugins that they bring.")]
_AddedNames = Annotated[list[str], typer.Argument(metavar="NAME…", help="Packages, or plugins that they bring.")]
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
    person = person_for(yes=yes, dry_run=dry_run, build=build)
    options = options_of(ctx)
    request = request_for("add", names, build=build, dry_run=dry_run)
    with nothing_half("nothing was installed"):
        added = add(names, workspace_of(options), request, person)
    return list_plugins(options, added, yes=yes) if added else 0


@app.command("update")
def update_plugins(names: _Added = None, build: _Build = False, yes: _Yes = False, dry_run: _DryRun = False) -> None:
    """Install newer versions of packages that were added; by default, of all of them.

    Bub shows first what changes: version, entry points, labels, settings, requirements.
    """
    person = person_for(yes=yes, dry_run=dry_run, build=build)
    with nothing_half("nothing more was installed"):
        update(names or (), request_for("update", names or [], build=build, dry_run=dry_run), person)


@app.command("remove")
def remove_plugins(ctx: typer.Context, names: _AddedNames, yes: _Yes = False, dry_run: _DryRun = False) -> None:
    """Remove packages that were added, and what was brought for them and nothing else needs.

    Bub then asks whether to take their plugins off the lists of the pipeline file; their settings stay.
    """
    person = person_for(yes=yes, dry_run=dry_run)
    with nothing_half("nothing was removed"):
        gone = remove(names, request_for("remove", names, dry_run=dry_run), person)
    if gone:
        unlist_plugins(options_of(ctx), gone, person)


@app.command("sync")
def sync_plugins(names: _Added = None, yes: _Yes = False, dry_run: _DryRun = False) -> None:
    """Install packages again that were added and are missing, as after an upgrade that made a new environment.

    Bub installs the same files as before. Whatever an installation that was killed left behind is taken back, too.
    """
    person = person_for(yes=yes, dry_run=dry_run)
    with nothing_half("nothing was installed"):
        sync(names or (), request_for("sync", names or [], dry_run=dry_run), person)


def _print_report(report: Sequence[PluginStatus]) -> None:
    names = max((len(status.name) for status in report), default=0)
    states = max((len(status.state) for status in report), default=0)
    for status in report:
        more = "  ".join(str(part) for part in (status.source, status.detail) if part)
        print(printable(f"{status.name:<{names}}  {status.state:<{states}}  {more}".rstrip()))
