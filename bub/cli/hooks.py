"""`bub hooks`: each hook point, its kind, and its plugins in the order in which they are called."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from bub.cli.opening import open_framework
from bub.cli.options import options_of
from bub.cli.output import show_json
from bub.cli.reading import file_meant_by
from bub.hookspecs import HOOK_POINTS

_UNCALLED = "- (this pipeline never calls it)"


def hooks(
    ctx: typer.Context,
    path: Annotated[
        Path | None, typer.Argument(metavar="[PATH]", help="A file, a folder with a pipelines.yaml, or bub:NAME.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show the points that nobody implements, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
) -> None:
    """Show each hook point that somebody implements, its kind, and its plugins in call order."""
    options = options_of(ctx)
    if path is not None:
        options.config = file_meant_by(path)
    framework = open_framework(options)
    report, graph = framework.hook_report(), framework.graph
    called = {step.hook for step in graph.steps} | graph.fired.keys()
    called |= {point.name for point in HOOK_POINTS.values() if point.bootstrap or point.twin in called}
    names = sorted({*report, *called, *HOOK_POINTS}) if everything else report
    rows = {name: (framework.hook_kind(name), report.get(name, ())) for name in names}
    if as_json:
        show_json({name: {"kind": kind, "plugins": plugins} for name, (kind, plugins) in rows.items()})
        return
    loops = framework.plugin_loops
    width = max((len(name) for name in rows), default=0)
    for name, (kind, plugins) in rows.items():
        nobody = "-" if name in called else _UNCALLED
        print(f"{name:<{width}}  {kind:<11}  {', '.join(_on_loop(one, loops) for one in plugins) or nobody}")
    if not rows:
        print("(no plugin implements a hook point)")


def _on_loop(plugin: str, loops: Mapping[str, str]) -> str:
    return f"{plugin} ({loops[plugin]})" if plugin in loops else plugin
