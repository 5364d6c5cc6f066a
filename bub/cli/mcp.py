"""`bub mcp`: Bub and the Model Context Protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bub.cli.mcp_serve import serve_streams
from bub.cli.table import MCP_SERVERS, load

_HELP = "The Model Context Protocol: use servers of others, and be one."

app = typer.Typer(rich_markup_mode=None, add_completion=False, help=_HELP)

_Json = Annotated[bool, typer.Option("--json", help="Print a JSON object.")]


@app.callback()
def mcp() -> None:
    """The Model Context Protocol: use servers of others, and be one."""


@app.command("list")
def list_servers(ctx: typer.Context, as_json: _Json = False) -> int:
    """List the servers that the file describes, and whether the profile may use them; none is started."""
    return int(load(f"{MCP_SERVERS}list_servers")(ctx, as_json=as_json))


@app.command()
def tools(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The server, as the file names it.")],
    as_json: _Json = False,
) -> int:
    """Start a server and show its tools: what each takes, and whether the profile allows it."""
    return int(load(f"{MCP_SERVERS}show_tools")(ctx, name, as_json=as_json))


@app.command()
def call(
    ctx: typer.Context,
    tool: Annotated[str, typer.Argument(metavar="NAME.TOOL", help="The tool, as `bub mcp tools` shows it.")],
    arguments: Annotated[str, typer.Argument(metavar="JSON", help="Its arguments, as a JSON object.")] = "{}",
    as_json: _Json = False,
) -> int:
    """Start a server and call one of its tools yourself, whatever the profile allows its agent."""
    return int(load(f"{MCP_SERVERS}call_tool")(ctx, tool, arguments, as_json=as_json))


@app.command("import")
def import_servers(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The `mcp.json` of another program.")],
) -> int:
    """Write the servers that another program lists into the pipeline file, with references in the place of secrets."""
    return int(load(f"{MCP_SERVERS}import_servers")(ctx, file))


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
