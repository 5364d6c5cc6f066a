"""`bub graph`: the stage graph of a pipeline as text, Mermaid or DOT."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bub.cli.options import options_of
from bub.cli.output import page_width, show
from bub.cli.reading import read_plan
from bub.errors import UsageError
from bub.pipeline.show.drawing import drawing_of
from bub.pipeline.show.flowcharts import dot, mermaid
from bub.pipeline.show.lanes import text_lines


class DrawingFormat(StrEnum):
    """How the graph is drawn."""

    text = "text"
    mermaid = "mermaid"
    dot = "dot"


def graph(
    ctx: typer.Context,
    path: Annotated[
        Path | None, typer.Argument(metavar="[PATH]", help="A file, a folder with a pipelines.yaml, or bub:NAME.")
    ] = None,
    pipeline: Annotated[
        str | None, typer.Option(metavar="bub:NAME", help="A shipped pipeline in place of a file.")
    ] = None,
    format: Annotated[DrawingFormat, typer.Option(help="How the graph is drawn.")] = DrawingFormat.text,  # noqa: A002 (the option)
) -> None:
    """Draw the stages of a pipeline: what waits for what, kinds, time-outs, and how long a turn may take.

    Nothing is run, no plugin is imported and no network is used; a file with errors is drawn as far as it can be read.
    """
    if path is not None and pipeline is not None:
        raise UsageError("a path and --pipeline name two pipelines", help="leave one of them out")
    plan, _ = read_plan(options_of(ctx), Path(pipeline) if pipeline is not None else path)
    drawing = drawing_of(plan)
    if format is DrawingFormat.text:
        show(text_lines(drawing, page_width()))
    else:
        print((mermaid if format is DrawingFormat.mermaid else dot)(drawing), end="")
