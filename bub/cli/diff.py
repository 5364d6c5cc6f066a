"""`bub diff`: what changes in behaviour between two pipelines, the dangerous first."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from typing import Annotated

import typer

from bub.base.diagnostics import PipelineError
from bub.base.locate import find_pipeline
from bub.cli.exits import FAILED, USAGE
from bub.cli.findings import ShownPipelineError
from bub.cli.options import options_of, repository, workspace_of
from bub.cli.output import show, show_json
from bub.cli.terminal import printable
from bub.pipeline.show.change_pages import change_page, render_change_annotations, render_comment
from bub.pipeline.show.compare import Comparison, compare
from bub.pipeline.show.sides import open_sides, two_sides


class ChangeFormat(StrEnum):
    """How changes are printed."""

    text = "text"
    json = "json"
    github = "github"
    markdown = "markdown"


class UnreadableSideError(ShownPipelineError):
    """A side cannot be read, so nothing can be said about differences (as with diff(1), that is no plain 1)."""

    exit_code = USAGE


def diff(
    ctx: typer.Context,
    old: Annotated[
        str | None,
        typer.Argument(
            metavar="[A]", help="FILE, bub:NAME, git:REV or git:REV:FILE, and #PROFILE; git:HEAD by default."
        ),
    ] = None,
    new: Annotated[
        str | None, typer.Argument(metavar="[B]", help="The same; by default the file as it is now.")
    ] = None,
    format: Annotated[ChangeFormat, typer.Option(help="How changes are printed.")] = ChangeFormat.text,  # noqa: A002 (the option)
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object, as --format json does.")] = False,
) -> int:
    """Show what changes in behaviour from one pipeline to another, the dangerous first.

    Comments, layout, and which of its files sets a value make no difference. Bub imports and runs nothing, and compares
    a file with mistakes as far as it can read it. Ends with 0 if both do the same, with 1 if they differ, with 2 if one
    of them cannot be read at all.
    """
    options = options_of(ctx)
    sides = two_sides(old, new)
    before, after = open_sides(*sides, lambda: find_pipeline(options.config, workspace_of(options), os.environ).path)
    # A profile that one side names is meant on the other, too.
    named = [side.profile for side in sides]
    profile = named[0] or named[1] or options.profile
    try:
        comparison = compare(before, after, (named[0] or profile, named[1] or profile) if profile is not None else None)
    except PipelineError as error:
        raise UnreadableSideError(error, {**before.sources, **after.sources}) from error
    _tell_mistakes(comparison)
    _print(comparison, f"{before.file} → {after.file}", ChangeFormat.json if as_json else format)
    return FAILED if comparison.changes else 0


def _tell_mistakes(comparison: Comparison) -> None:
    """Say on standard error which files have mistakes, which may hide a difference."""
    files = dict.fromkeys(finding.file for finding in comparison.mistakes)
    for file in files:
        count = sum(finding.file == file for finding in comparison.mistakes)
        errors = f"{count} errors" if count > 1 else "1 error"
        print(printable(f"bub: {file} has {errors}, so Bub compares only what it can read of it"), file=sys.stderr)


def _print(comparison: Comparison, title: str, form: ChangeFormat) -> None:
    match form:
        case ChangeFormat.json:
            show_json(comparison.as_dict(), indent=2)
        case ChangeFormat.github:
            print(render_change_annotations(comparison, repository()), end="")
        case ChangeFormat.markdown:
            print(render_comment(comparison, title), end="")
        case ChangeFormat.text:
            show(change_page(comparison, title))
