"""A plugin for a profile that is served over MCP: tools that write, draw, print or take long; a model that echoes."""

from __future__ import annotations

import base64
from pathlib import Path
from textwrap import dedent
from typing import Any

import trio

from bub import hookimpl, tool
from bub.streaming import AsyncStreamEvents, StreamEvent
from bub.tools import Tool, ToolContext, ToolError, ToolResult

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()

PIPELINE = dedent("""\
    version: 1
    extends: bub:default
    hooks: {moderate: {kind: gate, takes: [prompt]}}
    stages: {moderate: {before: run_model}}
    plugins: {house: {path: house.py}}
    profiles:
      default: {plugins: [house], tools: {allow: ["*"], ask: [notes.add], deny: [doors.open]}}
    """)


def write_house(folder: Path) -> Path:
    """Write the pipeline and the plugin to a folder; returns the pipeline file."""
    (folder / "house.py").write_text(Path(__file__).read_text(encoding="utf-8"), encoding="utf-8")
    file = folder / "pipelines.yaml"
    file.write_text(PIPELINE, encoding="utf-8")
    return file


@tool(name="notes.add", reaches=None)
def add_note(text: str, context: ToolContext) -> str:
    """Add a line to the notes."""
    with (context.workspace / "notes.txt").open("a", encoding="utf-8") as notes:
        notes.write(f"{text}\n")
    return f"noted {text}"


@tool(name="picture.draw", read_only=True, reaches=None)
def draw(size: int = 1) -> ToolResult:
    """Draw a picture."""
    media = {"kind": "image", "mime_type": "image/png", "url": f"data:image/png;base64,{PNG}"}
    return ToolResult(f"a picture of size {size}", (media,))


@tool(name="noise.make", read_only=True, reaches=None)
def make_noise() -> str:
    """Print to standard output, as careless code does."""
    print("noise on standard output")
    return "printed"


@tool(name="doors.open", reaches=None)
def open_doors() -> str:
    """Open the doors, which nobody may."""
    return "opened"


@tool(name="doors.break", read_only=True, reaches=None)
def break_doors() -> str:
    """Fail."""
    raise ToolError("the door holds", help="knock")


@tool(name="paint.dry", reaches=None)
async def watch_paint_dry(context: ToolContext) -> str:
    """Take for ever."""
    (context.workspace / "begun").write_text("")
    try:
        print("watching")
        await trio.sleep_forever()
    finally:
        (context.workspace / "stopped").touch()
    return ""


@tool(name="diary.read", read_only=True, reads="private")
def read_diary() -> str:
    """Read the diary."""
    return "dear diary"


@tool(name="letters.send", reaches="outside")
def send_letter(text: str, context: ToolContext) -> str:
    """Send a letter."""
    (context.workspace / "sent.txt").write_text(text, encoding="utf-8")
    return "sent"


@tool(name="silence.keep", read_only=True, reaches=None)
def keep_silence() -> str:
    """Say nothing."""
    return ""


@hookimpl
def moderate(prompt: str) -> dict[str, str] | None:
    """Keep what is rude from every turn."""
    return {"deny": "be polite"} if "damn" in prompt else None


@hookimpl
def tool_gate(tool: str, args: dict[str, Any]) -> dict[str, str] | None:
    """Keep the agent from drawing large."""
    return {"deny": "too large"} if tool == "picture.draw" and args["size"] > 9 else None


@hookimpl
def provide_tools() -> list[Tool]:
    return [add_note, draw, make_noise, open_doors, break_doors, read_diary, keep_silence, send_letter, watch_paint_dry]


@hookimpl
def call_model(request: dict[str, Any]) -> AsyncStreamEvents:
    """Say what was said; a message that begins with `note` is noted first, whatever comes of that is said, too."""
    said = request["messages"]
    words = str(next(one["content"] for one in reversed(said) if one["role"] == "user"))

    if words.startswith("exit"):
        raise SystemExit(3)

    async def events() -> Any:
        if words.startswith("note ") and said[-1]["role"] == "user":
            arguments = {"text": words.removeprefix("note ").splitlines()[0]}
            yield StreamEvent("tool_call", {"id": "1", "name": "notes.add", "arguments": arguments})
        else:
            yield StreamEvent.text("You said: ")
            yield StreamEvent.text(str(said[-1]["content"]).splitlines()[0])
        yield StreamEvent("final", {"finish_reason": "stop"})

    return AsyncStreamEvents(events())
