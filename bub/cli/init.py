"""`bub init`: a commented pipeline file to begin with."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from bub.base.locate import FILE_NAME, bub_home
from bub.cli.options import options_of, workspace_of
from bub.cli.terminal import printable
from bub.errors import BubError, UsageError
from bub.pipeline.check.editor_schema import editor_schema
from bub.pipeline.edit.starter import start
from bub.pipeline.source.merge import DEFAULT_PROFILE, ENDINGS, SHIPPED
from bub.plugins.schemas import installed_sections
from bub.runtime.trust import trust


def init(
    ctx: typer.Context,
    path: Annotated[
        Path | None,
        typer.Argument(metavar="[PATH]", help="A folder, the workspace by default; or a file that ends in .yaml."),
    ] = None,
    parent: Annotated[
        str, typer.Option("--from", metavar="NAME", help="The shipped pipeline to extend.")
    ] = f"{SHIPPED}{DEFAULT_PROFILE}",
) -> None:
    """Write a pipelines.yaml to begin with, and the schema that editors read beside it.

    Bub overwrites no file. It trusts the folder from then on, since you wrote the file there yourself.
    """
    options = options_of(ctx)
    if options.config is not None:
        raise UsageError("--config names a file to use, not one to write", help="type `bub init FILE`")
    named = path if path is not None else workspace_of(options)
    file = named if named.suffix in ENDINGS else named / FILE_NAME
    schema = json.dumps(editor_schema(section.plugin for section in installed_sections()), indent=2) + "\n"
    written = start(file, parent, schema)
    names = " and ".join(map(str, written))
    try:
        trusted = _trust_folder(file)
    except BubError as error:
        raise BubError(f"wrote {names}, but {error}", help=f"{error.help}; then `bub trust` lets it run") from error
    option = _option_for(file)
    print(printable(f"wrote {names}{'; the folder is trusted now' if trusted else ''}"))
    print(printable(f"next: `bub{option} doctor` says what is missing for a first answer, such as a model"))
    print(printable(f"then: `bub{option} run hello`; the comments of the file say what you can change"))


def _trust_folder(file: Path) -> bool:
    """Trust the folder of a file that Bub finds there; one of another name is used when it is named."""
    if file.name != FILE_NAME:
        return False
    trust(file.parent, bub_home(os.environ))
    return True


def _option_for(file: Path) -> str:
    """Return the option by which other commands use the file, or "" if they find it by themselves."""
    if file.name != FILE_NAME:
        return f" --config {shlex.quote(str(file))}"
    found = (Path.cwd(), bub_home(os.environ))
    near = os.path.realpath(file.parent) in map(os.path.realpath, found)
    return "" if near else f" -w {shlex.quote(str(file.parent))}"
