"""`bub plugins`: which plugins are installed, listed and loaded, and why one is not."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from bub.cli.opening import open_framework
from bub.cli.options import options_of
from bub.cli.output import show_json
from bub.cli.terminal import printable


def plugins(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False,
) -> None:
    """Show every plugin that is installed or listed, what became of it, where it comes from, and why."""
    report = open_framework(options_of(ctx)).plugin_report()
    if as_json:
        show_json([msgspec.structs.asdict(status) for status in report], default=str)
        return
    names = max((len(status.name) for status in report), default=0)
    states = max((len(status.state) for status in report), default=0)
    for status in report:
        more = "  ".join(str(part) for part in (status.source, status.detail) if part)
        print(printable(f"{status.name:<{names}}  {status.state:<{states}}  {more}".rstrip()))
