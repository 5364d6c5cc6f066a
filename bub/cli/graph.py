"""`bub graph`: the stage graph of a pipeline as text, Mermaid, DOT or SVG."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bub.cli.options import options_of
from bub.cli.output import page_width, show
from bub.cli.reading import file_meant_by, read_plan
from bub.cli.table import IMPLEMENTERS, load
from bub.errors import BubError, UsageError
from bub.pipeline.show.drawing import drawing_of
from bub.pipeline.show.flowcharts import dot, mermaid
from bub.pipeline.show.lanes import text_lines
from bub.pipeline.show.svg import svg


class DrawingFormat(StrEnum):
    """How the graph is drawn."""

    text = "text"
    mermaid = "mermaid"
    dot = "dot"
    svg = "svg"


_RENDER = {DrawingFormat.mermaid: mermaid, DrawingFormat.dot: dot, DrawingFormat.svg: svg}


def graph(
    ctx: typer.Context,
    path: Annotated[
        Path | None, typer.Argument(metavar="[PATH]", help="A file, a folder with a pipelines.yaml, or bub:NAME.")
    ] = None,
    pipeline: Annotated[
        str | None, typer.Option(metavar="bub:NAME", help="A shipped pipeline in place of a file.")
    ] = None,
    format: Annotated[DrawingFormat, typer.Option(help="How the graph is drawn.")] = DrawingFormat.text,  # noqa: A002 (the option)
    plugins: Annotated[
        bool, typer.Option("--plugins", help="Import the plugins too, and show what nobody implements.")
    ] = False,
) -> None:
    """Draw the stages of a pipeline: what waits for what, kinds, time-outs, and how long a turn may take.

    Bub runs nothing, uses no network, and imports plugins only with --plugins. It draws a file with errors as far as it
    can read it.
    """
    if path is not None and pipeline is not None:
        raise UsageError("a path and --pipeline name two pipelines", help="leave one of them out")
    options, named = options_of(ctx), Path(pipeline) if pipeline is not None else path
    plan, _ = read_plan(options, named)
    implementers = load(IMPLEMENTERS)(options, named and file_meant_by(named)) if plugins else None
    if isinstance(implementers, BubError):
        raise implementers
    drawing = drawing_of(plan, implementers)
    if format is DrawingFormat.text:
        show(text_lines(drawing, page_width()))
    else:
        print(_RENDER[format](drawing), end="")
