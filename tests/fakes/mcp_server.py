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


@server.resource("office://rules", description="The rules\nof the house.", mime_type="text/plain")
def rules() -> str:
    """Tell what is in a resource."""
    return "Be kind.\x1b[31m"


@server.resource("office://logo", mime_type="image/png")
def logo() -> bytes:
    """Give a picture."""
    return PIXEL


@server.resource("office://desk/{owner}")
def desk(owner: str) -> str:
    """What is on somebody's desk."""
    return f"a pen of {owner}"


@server.prompt()
def greet(name: str, prompt: str = "hello") -> str:
    """Greet somebody."""
    return f"Say {prompt} to {name}, kindly."


if __name__ == "__main__":
    server.run("stdio")
