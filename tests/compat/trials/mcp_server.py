"""bub-mcp-server: a client of MCP lets Bub run a turn."""

from __future__ import annotations

from tests.compat.services.model import ANSWER
from tests.compat.services.web import free_port
from tests.compat.trial import Trial
from tests.compat.world import World

CLIENT = """
import asyncio, sys
from fastmcp import Client

async def main():
    for _ in range(60):
        try:
            async with Client(sys.argv[1]) as client:
                print([tool.name for tool in await client.list_tools()])
                result = await client.call_tool("run_model", {"prompt": "hello over MCP", "session_id": "mcp:1"})
                print(result.data)
                return
        except (OSError, RuntimeError) as error:
            problem = error
            await asyncio.sleep(0.5)
    raise problem

asyncio.run(main())
"""


async def turn(world: World) -> None:
    port = free_port()
    world.configure(port=port)
    async with world.gateway():
        printed = await world.python(CLIENT, f"http://127.0.0.1:{port}/sse")
        assert "run_model" in printed and ANSWER in printed, printed
        assert "hello over MCP" in await world.model.asked()


TRIAL = Trial(
    package="bub-mcp-server",
    plugin="mcp-server",
    does="a client lists the tools, finds the tool run_model, and starts a turn with it",
    against="the real client of fastmcp, over HTTP",
    hooks=("provide_channels",),
    turn=turn,
)
