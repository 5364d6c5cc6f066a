"""Commands as the older Bub calls them, and what its turn does with a message that is no dict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes.toys import Toy, Workshop

from bub import tool
from bub.agent.commands import FORMER_NAMES

pytestmark = pytest.mark.anyio

CLASSIC = "extends: bub:classic"


async def answer_to(bub: Workshop, line: str) -> str:
    """What the classic turn of a profile without plugins replies to a command."""
    folder = bub.folder / ".agents" / "skills" / "baking"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text("---\nname: baking\ndescription: Bake bread.\n---\nKnead it well.\n", "utf-8")
    framework = bub(CLASSIC, watcher=Toy(on_error=lambda: None))
    async with framework.running():
        result = await framework.process_inbound({"channel": "cli", "chat_id": "local", "content": line})
    (reply,) = result.outbounds
    return str(reply["content"])


@pytest.mark.parametrize(
    ("former", "ours"),
    [
        (",tools", ",help"),
        (",tool.describe fs.read", ",help fs.read"),
        (",tool name=fs.read", ",help name=fs.read"),
        (",skills.list", ",skill"),
        (",skills.describe baking", ",skill baking"),
    ],
)
async def test_A7_a_command_of_the_older_bub_is_one_of_ours(bub: Workshop, former: str, ours: str) -> None:
    assert await answer_to(bub, former) == await answer_to(bub, ours)


async def test_A7_skills_are_listed_and_read(bub: Workshop) -> None:
    assert "Bake bread." in await answer_to(bub, ",skills.list")
    assert "Knead it well." in await answer_to(bub, ",skills.describe name=baking")


async def test_A7_a_tool_that_has_such_a_name_goes_before(bub: Workshop) -> None:
    @tool(name="tools", read_only=True, reaches=None)
    def list_the_shed() -> str:
        """List what hangs in the shed."""
        return "a spade"

    framework = bub(CLASSIC, shed=Toy(provide_tools=lambda: [list_the_shed]))
    result = await framework.process_inbound({"channel": "cli", "chat_id": "local", "content": ",tools"})
    assert result.outbounds[0]["content"] == "a spade"


class Letter:
    """A message of a program."""

    def __init__(self) -> None:
        self.channel, self.chat_id, self.content = "post", "7", "hello"


@pytest.mark.parametrize("message", [Letter(), "hello"])
async def test_T32_what_is_no_dict_becomes_one_in_the_classic_turn(bub: Workshop, message: Any) -> None:
    seen: list[Any] = []
    framework = bub(CLASSIC, model=Toy(run_model=lambda message: seen.append(message) or "hi"))
    await framework.process_inbound(message)
    assert [(type(one), one["content"]) for one in seen] == [(dict, "hello")]


def test_the_page_of_commands_names_them() -> None:
    page = (Path(__file__).parents[1] / "docs" / "agent.md").read_text(encoding="utf-8")
    assert [name for name in FORMER_NAMES if f"`,{name}`" not in page] == []
