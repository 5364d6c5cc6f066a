"""`bub mcp`: Bub and the Model Context Protocol."""

from __future__ import annotations

from typing import Annotated

import typer

from bub.cli.mcp_serve import serve_streams

_HELP = "The Model Context Protocol: serve Bub to programs that speak it."

app = typer.Typer(rich_markup_mode=None, add_completion=False, help=_HELP)


@app.callback()
def mcp() -> None:
    """The Model Context Protocol: serve Bub to programs that speak it."""


@app.command()
def serve(
    ctx: typer.Context,
    every_tape: Annotated[
        bool, typer.Option("--all-tapes", help="Let clients read every tape of the workspace, not only their own.")
    ] = False,
) -> int:
    """Serve other programs over standard input and output: a turn and the profile's tools as tools, tapes to read.

    The rules of the profile apply to each call. What the profile asks about, the client asks its person. Register
    `bub mcp serve` in the `mcp.json` of the program. See docs/mcp-serve.md.
    """
    return serve_streams(ctx, every_tape=every_tape)
