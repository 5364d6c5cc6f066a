"""bub-acp-server: an editor starts `bub acp` and has a turn."""

from __future__ import annotations

from tests.compat.services.model import ANSWER
from tests.compat.trial import Trial
from tests.compat.world import World

CLIENT = """
import asyncio, os, sys
from acp import PROTOCOL_VERSION, spawn_agent_process, text_block
from acp.schema import ClientCapabilities

class Editor:
    def __init__(self):
        self.said = ""

    async def session_update(self, session_id, update, **more):
        if update.session_update == "agent_message_chunk":
            self.said += update.content.text

    def on_connect(self, connection):
        pass

async def main():
    editor = Editor()
    async with spawn_agent_process(editor, sys.argv[1], "acp", env=dict(os.environ), cwd=os.getcwd()) as (agent, _):
        await agent.initialize(protocol_version=PROTOCOL_VERSION, client_capabilities=ClientCapabilities())
        session = await agent.new_session(cwd=os.getcwd(), mcp_servers=[])
        done = await agent.prompt(session_id=session.session_id, prompt=[text_block("hello over ACP")])
        print(done.stop_reason, editor.said)

asyncio.run(asyncio.wait_for(main(), 60))
"""


async def turn(world: World) -> None:
    world.write()
    printed = await world.python(CLIENT, str(world.commands / "bub"))
    assert printed.startswith("end_turn") and ANSWER in printed, printed
    assert "hello over ACP" in await world.model.asked()


TRIAL = Trial(
    package="bub-acp-server",
    plugin="acp-server",
    does="an editor opens a session, and gets the answer piece by piece; Bub's own tools are used, not the editor's",
    against="the real client of agent-client-protocol, over stdio",
    hooks=("build_tape_context", "load_state", "register_cli_commands", "system_prompt"),
    turn=turn,
)
