"""A server of the Model Context Protocol, made with the official SDK, that does what tests need."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import anyio
from mcp.server.mcpserver import Context, Image, MCPServer

server = MCPServer("office")
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@server.tool()
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool(name="Say-Hello")
def hello(name: str = "you") -> str:
    """Say hello."""
    return f"hello, {name}"


@server.tool()
def surroundings() -> str:
    """Tell the variables that the server has, where it runs, and its number."""
    return json.dumps({"env": dict(os.environ), "cwd": str(Path.cwd()), "pid": os.getpid()})


@server.tool()
def picture() -> Image:
    """Show a picture."""
    return Image(data=PIXEL, format="png")


@server.tool()
def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


@server.tool()
async def sleep(seconds: float) -> str:
    """Answer late."""
    await anyio.sleep(seconds)
    return "awake"


@server.tool()
def die(words: str = "") -> str:
    """End at once."""
    print(words, file=sys.stderr, flush=True)
    os._exit(3)


@server.tool()
def spawn() -> str:
    """Start a program that stays."""
    return str(subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).pid)


@server.tool()
def hang(seconds: float) -> str:
    """Hold the whole server."""
    time.sleep(seconds)
    return "late"


@server.tool()
async def learn(context: Context, description: str) -> str:
    """Bring another tool, and say so."""

    def learned() -> str:
        return "learned"

    server.add_tool(learned, name="learned", description=description)
    await context.notify_tools_changed()
    await anyio.sleep(0.05)
    return "there is `learned` now"


if __name__ == "__main__":
    server.run("stdio")
