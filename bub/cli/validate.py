"""`bub validate`: every finding of every pipeline file, without running or importing a plugin."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bub.cli.exits import FAILED, in_color
from bub.cli.options import Options, options_of, workspace_of
from bub.diagnostics import Diagnostic
from bub.errors import UsageError
from bub.locate import FILE_NAME, find_pipeline
from bub.pipeline.interpolate import read_environment
from bub.pipeline.report import render_json, render_text, summary
from bub.pipeline.validate import check_file
from bub.resources import shipped_pipeline, shipped_pipelines

_SHIPPED = "bub:"


class Format(StrEnum):
    """How findings are printed."""

    text = "text"
    json = "json"


def validate(
    ctx: typer.Context,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PATH]...", help="Files, folders with a pipelines.yaml, or bub:NAME."),
    ] = None,
    format: Annotated[Format, typer.Option(help="How findings are printed.")] = Format.text,  # noqa: A002 (the option)
    strict: Annotated[bool, typer.Option("--strict", help="Let warnings fail too.")] = False,
) -> int:
    """Check pipeline files, all profiles of each, and print every finding.

    Without PATH the file that `bub run` would use is checked. Nothing of it is run and no plugin is imported, so
    files of strangers are safe to check. Ends with 1 if a file has errors (with --strict: warnings), else with 0.
    """
    options = options_of(ctx)
    files = [_file(path) for path in paths] if paths else [_usual_file(options)]
    profiles = (options.profile,) if options.profile is not None else None
    findings: list[Diagnostic] = []
    sources: dict[str, str] = {}
    for file in files:
        environment, found = read_environment(file.parent, os.environ)
        checked = check_file(file, profiles=profiles, environment=environment)
        findings += [*found, *checked.diagnostics]
        sources.update(checked.sources)
    if format is Format.json:
        print(render_json(findings, len(files)), end="")
    else:
        text = render_text(findings, sources, color=in_color(sys.stdout))
        print(f"{text}\n" if text else "", summary(findings, len(files)), sep="")
    return FAILED if _fails(findings, strict) else 0


def _fails(findings: Sequence[Diagnostic], strict: bool) -> bool:
    return any(finding.severity == "error" or strict for finding in findings)


def _file(path: Path) -> Path:
    name = str(path).removeprefix(_SHIPPED)
    shipped = shipped_pipeline(name) if name != str(path) and name in shipped_pipelines() else None
    if shipped is not None:
        return shipped
    if os.path.isdir(path):  # noqa: PTH112 (unlike `Path.is_dir`, it never raises)
        path = path / FILE_NAME
    if not _is_there(path):
        if str(path).startswith(_SHIPPED):
            names = ", ".join(f"{_SHIPPED}{name}" for name in shipped_pipelines())
            raise UsageError(f"the shipped pipeline {path} does not exist", help=f"shipped are {names}")
        raise UsageError(f"{path} does not exist", help="name a pipeline file, or a folder that has a pipelines.yaml")
    return path


def _is_there(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise UsageError(f"{path} cannot be looked at: {error.strerror}", help="name another file") from error
    return True


def _usual_file(options: Options) -> Path:
    found = find_pipeline(options.config, workspace_of(options), os.environ)
    file = found.path or shipped_pipeline("default")
    if file is None:
        raise UsageError("no pipeline file was found", help="name one: `bub validate FILE`")
    return file
