"""`bub diff`: what changes in behaviour between two pipelines, the dangerous first."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import Annotated

import typer

from bub.base.diagnostics import PipelineError, Place
from bub.base.layout import EMPTY, Line, Span, line
from bub.base.locate import find_pipeline
from bub.cli.exits import FAILED, USAGE
from bub.cli.findings import ShownPipelineError
from bub.cli.options import options_of, workspace_of
from bub.cli.output import show, show_json
from bub.pipeline.show.compare import Comparison, ProfileComparison, compare
from bub.pipeline.show.differences.changes import Change
from bub.pipeline.show.sides import open_sides, two_sides

_HEADINGS = MappingProxyType(
    {
        ("danger", "code"): "code that will be imported",
        ("danger", "gates"): "gates that open",
        ("danger", "tools"): "tools that are freed",
        ("danger", "settings"): "where messages and keys go",
        ("notice", "code"): "plugins",
    }
)


class UnreadableSideError(ShownPipelineError):
    """A side has errors, so nothing can be said about differences (as with diff(1), that is no plain 1)."""

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
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
) -> int:
    """Show what changes in behaviour from one pipeline to another, the dangerous first.

    Comments, layout, and which of its files says something make no difference. Nothing is imported or run. Ends with 0
    when both do the same, with 1 when they differ, with 2 when one of them cannot be read.
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
    if as_json:
        show_json(comparison.as_dict(), indent=2)
    else:
        show(_page(comparison, f"{before.file} → {after.file}"))
    return FAILED if comparison.changes else 0


def _page(comparison: Comparison, title: str) -> Iterator[Line]:
    changes = comparison.changes
    if not changes:
        yield line(f"{title}: no difference in behaviour")
        return
    yield line(title, "strong")
    # Profiles with the same changes share one heading.
    same, *differing = _group_alike(comparison.profiles)
    for profiles in differing:
        yield from (EMPTY, line(_name_profiles(profiles), "strong"))
        yield from _list_changes(profiles[0].changes)
    if comparison.routes:
        yield from (EMPTY, line("all profiles", "strong"))
        yield from _list_changes(comparison.routes)
    yield EMPTY
    if same:
        yield line(f"{_name_profiles(same)}: no difference")
    dangers = sum(change.severity == "danger" for change in changes)
    yield line(f"{len(changes)} change{'s' if len(changes) > 1 else ''}, {dangers or 'none'} of them dangerous")


def _group_alike(profiles: Iterable[ProfileComparison]) -> list[list[ProfileComparison]]:
    """Return the profiles without changes, then the others, in groups that have the same changes."""
    sets: dict[tuple[tuple[str, Place | None], ...], list[ProfileComparison]] = {(): []}
    for compared in profiles:
        changes = tuple((change.message, change.place) for change in compared.changes)
        sets.setdefault(changes, []).append(compared)
    return list(sets.values())


def _name_profiles(profiles: Iterable[ProfileComparison]) -> str:
    names = [f"`{each.old}` → `{each.new}`" if each.old != each.new else f"`{each.name}`" for each in profiles]
    return f"profile{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _list_changes(changes: Iterable[Change]) -> Iterator[Line]:
    for (severity, area), group in itertools.groupby(changes, key=lambda change: (change.severity, change.area)):
        yield line(f"  {_HEADINGS.get((severity, area), area)}", "warn" if severity == "danger" else "")
        for change in group:
            place = f"  {change.place}" if change.place is not None else ""
            yield Span(f"    {_mark(change)} {change.message}"), Span(place, "faint")


def _mark(change: Change) -> str:
    if change.old is None:
        return "+"
    return "-" if change.new is None else "~"
