"""Resources and prompts of servers, as tools and a command."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from fakes.scripted import OPENAI, Called
from fakes.talk import Talk

from bub.agent.mcp import program, resources
from bub.agent.mcp.servers import open_servers
from bub.base.surfaces import Surface
from bub.plugins.servers import ServerSpec
from bub.tools import ToolError

pytestmark = pytest.mark.anyio

FAKES = Path(__file__).parent / "fakes"
OFFICE = f"mcp:\n  office: {{command: [{sys.executable}, {FAKES / 'mcp_server.py'}]}}"


def liar(lie: str) -> ServerSpec:
    return ServerSpec("liar", (sys.executable, "-S", "-E", str(FAKES / "mcp_liar.py"), lie))


def call(tool: str, **arguments: Any) -> Called:
    return Called(f"mcp_office_{tool}", json.dumps(arguments), f"call_{tool}{len(str(arguments))}")


async def command(talk: Talk, line: str) -> str:
    return str((await talk.say(line, surface=Surface.TERMINAL)).model_output)


async def test_an_agent_reads_resources_and_a_person_sees_prompts(talk: Talk) -> None:
    async with talk.open(tools='{allow: ["mcp.office.*", help], deny: [mcp.office.add]}', more=OFFICE):
        await talk.say(
            OPENAI.answer(
                calls=[
                    call("resources"),
                    call("read", uri="office://rules"),
                    call("read", uri="office://logo"),
                    call("read", uri="office://desk/Ada"),
                    call("read", uri="office://nowhere"),
                    call("prompt", prompt="greet"),
                ]
            ),
            OPENAI.answer("done"),
        )
        asked = await talk.asked()
        offered = {tool["function"]["name"] for tool in asked[0]["tools"]}
        assert {"mcp_office_resources", "mcp_office_read"} <= offered
        assert "mcp_office_prompt" not in offered
        listed, rules, logo, desk, nowhere, prompt = [event["content"] for event in talk.of_kind("tool_result")]
        assert listed.splitlines() == [
            "office://rules  rules (text/plain): The rules of the house.",
            "office://logo  logo (image/png): Give a picture.",
            "office://desk/{owner}  desk (a template): What is on somebody's desk.",
        ]
        assert rules.startswith("Be kind.")
        assert "image/png, 70 bytes" in logo
        assert "data:image/png;base64," in json.dumps(asked[1]["messages"])
        assert desk == "a pen of Ada"
        assert "the server `office` answers" in nowhere
        assert "there is no tool" in prompt
        assert await command(talk, ",mcp.office.prompt") == "greet name=… [prompt=…]: Greet somebody."
        assert await command(talk, ",mcp.office.prompt greet name=Ada prompt=hi") == "Say hi to Ada, kindly."
        assert "lists what each prompt takes" in await command(talk, ",mcp.office.prompt greet")
        assert "takes the name of one prompt" in await command(talk, ",mcp.office.prompt greet Ada")
        assert "mcp.office.prompt [PROMPT] [ARGUMENT=…]" in await command(talk, ",help mcp.office.prompt")
        assert "not allowed" in await command(talk, ",mcp.office.add a=1 b=2")
        tools = talk.framework.served.tools
        made = {tools[f"mcp.office.{name}"].assumed_labels for name in ("resources", "read", "prompt")}
        assert made == {tools["mcp.office.add"].assumed_labels}


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give servers less time to end than they have elsewhere."""
    monkeypatch.setattr(program, "GRACE", 0.2)


@pytest.mark.parametrize(
    ("lie", "tools", "problems"),
    [
        ("resources", ["ping", "resources", "read"], ()),
        ("no-resources", ["ping"], ()),
        ("bad-resources", ["ping"], ("Bub does not offer its resources: their list breaks the protocol",)),
        ("silent-resources", ["ping"], ("Bub does not offer its resources: it did not list them within 0.3 s",)),
        (
            "own-read",
            ["read", "resources"],
            ("it has a tool `read` of its own, so Bub offers none of this name",),
        ),
    ],
)
async def test_tools_for_resources_are_offered_only_if_there_are_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: str, tools: list[str], problems: tuple[str, ...]
) -> None:
    monkeypatch.setattr(resources, "PATIENCE", 0.3)
    spec = liar(lie)
    async with open_servers() as servers:
        connection = await servers.find(spec, tmp_path)
        await connection.open()
        assert [name.rpartition(".")[2] for name in connection.offered.tools] == tools
        assert list(connection.offered.facts) == tools
        assert connection.offered.problems == problems
        if lie == "resources":
            told = (await connection.offered.tools["mcp.liar.resources"].function()).text.splitlines()
            assert told[0] == "evil://0  evil"
            assert told[500:] == ["[there are more resources than these]"]
            read = await connection.offered.tools["mcp.liar.read"].function(uri="evil://0")
            assert len(read.text) < 2_000_100
            with pytest.raises(ToolError, match="has sent an answer that breaks the protocol"):
                await connection.offered.tools["mcp.liar.read"].function(uri="evil://1")


async def test_a_server_that_says_it_has_its_first_resources_gets_the_tools_for_them(tmp_path: Path) -> None:
    async with open_servers() as servers:
        connection = await servers.find(liar("late-resources"), tmp_path)
        await connection.open()
        assert list(connection.offered.facts) == ["ping"]
        await connection.call("ping", None)
        with trio.fail_after(5):
            while list(connection.offered.facts) != ["ping", "resources", "read"]:
                await connection.call("ping", None)
