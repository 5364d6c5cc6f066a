"""`bub hooks`: each hook point, its kind, and its plugins in the order in which they are called."""

from __future__ import annotations

from typing import Annotated

import typer

from bub.cli.opening import open_framework
from bub.cli.options import options_of
from bub.cli.output import show_json


def hooks(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
) -> None:
    """Show each hook point that somebody implements, its kind, and its plugins in call order."""
    framework = open_framework(options_of(ctx))
    rows = {name: (framework.hook_kind(name), plugins) for name, plugins in framework.hook_report().items()}
    if as_json:
        show_json({name: {"kind": kind, "plugins": plugins} for name, (kind, plugins) in rows.items()})
        return
    width = max((len(name) for name in rows), default=0)
    for name, (kind, plugins) in rows.items():
        print(f"{name:<{width}}  {kind:<11}  {', '.join(plugins) or '-'}")
    if not rows:
        print("(no plugin implements a hook point)")
