"""`bub trust`: which folders may bring a pipeline file that is used without being named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from bub.base.locate import bub_home
from bub.cli.exits import FAILED
from bub.cli.options import options_of, workspace_of
from bub.cli.prompts import require_person
from bub.cli.terminal import for_reader, printable
from bub.errors import UsageError
from bub.runtime import trust as trusting


def trust(
    ctx: typer.Context,
    folder: Annotated[
        str | None, typer.Argument(metavar="[FOLDER]", help="The folder to trust; the workspace by default.")
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="Print the folders that are trusted.")] = False,
    revoke: Annotated[str | None, typer.Option(metavar="FOLDER", help="Trust this folder no longer.")] = None,
) -> int:
    """Allow the pipeline file of a folder to be used without naming it.

    Such a file decides which plugins run and where messages and keys are sent: read it first.
    """
    home = bub_home(os.environ)
    if sum((folder is not None, show, revoke is not None)) > 1:
        raise UsageError("FOLDER, --list and --revoke cannot be used together", help="use one of them at a time")
    if show:
        for trusted in trusting.trusted_folders(home):
            print(for_reader(str(trusted)))
        return _damage(home)
    if revoke is not None:
        taken = _parse_folder(revoke)
        if not trusting.revoke(taken, home):
            raise UsageError(f"{taken} was not trusted", help="`bub trust --list` shows the folders that are")
        print(for_reader(f"{taken.absolute()} is not trusted any more"))
        return 0
    require_person()
    chosen = _parse_folder(folder) if folder is not None else workspace_of(options_of(ctx))
    trusting.trust(chosen, home)
    print(for_reader(f"{os.path.realpath(chosen)} is trusted"))
    return 0


def _parse_folder(folder: str) -> Path:
    if not folder:  # a script's variable that was not set: as a path it would be the current folder
        raise UsageError("the name of the folder is empty", help="say `.` for the current folder")
    return Path(folder)


def _damage(home: Path) -> int:
    problem = trusting.store_problem(home)
    if problem is None:
        return 0
    typer.echo(printable(f"bub: {problem}, so no folder is trusted (`bub trust FOLDER` starts a new list)"), err=True)
    return FAILED
