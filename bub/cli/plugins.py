"""`bub plugins`: which plugins are installed, listed and loaded, by profile, and why one is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from bub.cli.opening import open_framework
from bub.cli.options import options_of
from bub.cli.output import show_json
from bub.cli.terminal import printable
from bub.plugins.plugin_set import PluginStatus


def plugins(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False,
) -> None:
    """Show every plugin that is installed or listed, its state, where it comes from, and why.

    A file whose routes name several profiles has a list for each: a plugin is called only for profiles that list it.
    """
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


def _print_report(report: Sequence[PluginStatus]) -> None:
    names = max((len(status.name) for status in report), default=0)
    states = max((len(status.state) for status in report), default=0)
    for status in report:
        more = "  ".join(str(part) for part in (status.source, status.detail) if part)
        print(printable(f"{status.name:<{names}}  {status.state:<{states}}  {more}".rstrip()))
