"""bub-mcp: a tool of a server is called by the model."""

from __future__ import annotations

import asyncio
import json

from tests.compat.services.slack import Slack
from tests.compat.trial import Trial
from tests.compat.world import World

SERVER = """
from fastmcp import FastMCP

server = FastMCP("clock")

@server.tool
def tell_time(city: str) -> str:
    "Tell the time in a city."
    return f"It is noon in {city}."

server.run(show_banner=False)
"""


async def turn(world: World) -> None:
    slack = await world.serve(Slack())
    script = world.folder / "clock.py"
    script.write_text(SERVER)
    server = {"command": str(world.commands / "python"), "args": [str(script)]}
    (world.bub_home / "mcp.json").write_text(json.dumps({"mcpServers": {"clock": server}}))
    world.model.answers = [("mcp", {}), ("mcp.clock_tell_time", {"city": "Oslo"}), "Noon."]
    async with world.gateway():
        await slack.heard("link")
        await asyncio.sleep(5)  # the server starts beside the channel, and nothing tells when
        await slack.say("what time is it in Oslo?")
        assert (await slack.heard("chat.postMessage"))["text"] == "Noon."
        messages = str(world.model.requests[-1]["messages"])
        assert "Tools: mcp.clock_tell_time" in messages and "It is noon in Oslo." in messages, messages[-800:]


TRIAL = Trial(
    package="bub-mcp",
    plugin="mcp",
    does="the model is offered the tools of a server, and calls one",
    against="a real server, made with fastmcp, over stdio; bub-slack and a fake Slack bring the message",
    beside={"bub-slack": {"bot_token": "xoxb-1", "app_token": "xapp-1"}},
    hooks=("load_state", "provide_channels", "register_cli_commands"),
    turn=turn,
    known="it adds the tools of its servers only after the servers have answered. Bub has to know all tools when it "
    "loads a profile, because the file says which tools are allowed. Instead of this package, use `mcp:` in the "
    "pipeline file: then Bub itself calls the servers",
)
