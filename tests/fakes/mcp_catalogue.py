"""A server of the Model Context Protocol whose tools are what a file says, which is named on its command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("catalogue")
brought: list[str] = []


def plain(song: str) -> str:
    return song


def loud(song: str, volume: int) -> str:
    return song


def bring() -> None:
    """Have just the tools that the file says."""
    for name in brought:
        server.remove_tool(name)
    brought.clear()
    said: dict[str, dict[str, Any]] = json.loads(Path(sys.argv[1]).read_text())
    for name, told in said.items():
        hints = ToolAnnotations(title=told["title"]) if "title" in told else None
        function = loud if told.get("loud") else plain
        server.add_tool(function, name=name, description=told["says"], annotations=hints)
        brought.append(name)


@server.tool()
async def turn_over(context: Context) -> str:
    """Read the file again, and say so."""
    bring()
    await context.notify_tools_changed()
    await anyio.sleep(0.05)
    return "done"


if __name__ == "__main__":
    bring()
    server.run("stdio")
