"""`bub schema`: the JSON Schema of pipeline files with the settings of the plugins that are installed here."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from bub.base.locate import find_pipeline
from bub.cli.options import Options, options_of, workspace_of
from bub.cli.terminal import printable
from bub.errors import UsageError
from bub.pipeline.check.editor_schema import editor_schema
from bub.pipeline.edit.modeline import write_schema
from bub.pipeline.source.merge import SHIPPED
from bub.plugins.schemas import installed_sections


def schema(
    ctx: typer.Context,
    write: Annotated[
        bool,
        typer.Option("--write", help="Write it beside your pipeline file, and name it in the first line of that file."),
    ] = False,
) -> None:
    """Print the JSON Schema of pipeline files, for editors and other tools.

    The settings of shipped and installed plugins are part of it; no plugin is imported.
    """
    installed = installed_sections()
    for section in installed:
        if section.schema is None:
            what = f"the schema does not check the settings of plugin `{section.plugin}`"
            print(printable(f"bub: {what}: {section.source} {section.problem}"), file=sys.stderr)
    text = json.dumps(editor_schema(section.plugin for section in installed), indent=2) + "\n"
    if not write:
        print(text, end="")
        return
    written = write_schema(_own_file(options_of(ctx)), text)
    backup = f" (as it was: {written.backup})" if written.backup else ""
    done = f"wrote {' and '.join(written.changed)}{backup}" if written.changed else f"{written.file} has it already"
    print(printable(done))


def _own_file(options: Options) -> Path:
    advice = "write a pipelines.yaml of your own, or name one with --config"
    if str(options.config).startswith(SHIPPED):
        raise UsageError(f"{options.config} is one of Bub's own files, which are not written", help=advice)
    found = find_pipeline(options.config, workspace_of(options), os.environ)
    if found.path is None:
        raise UsageError("there is no pipeline file of yours to write the schema beside", help=advice)
    return found.path
