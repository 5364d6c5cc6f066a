"""`fs.view`: the picture goes into the conversation as the model's own view, in the shape that each API takes."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from fakes.scripted import ANTHROPIC, OPENAI, Api, Called, refusal
from fakes.talk import Talk

from bub.agent.models.apis import responses
from bub.agent.models.conversation import SHOWN
from bub.agent.models.endpoint import resolve_endpoint
from bub.agent.models.names import ToolNames
from bub.agent.models.request import ChatRequest
from bub.agent.tools.files import file_tools
from bub.channels.attachments import LARGEST_IMAGE
from bub.errors import ModelError
from bub.tools import ToolContext, ToolError, ToolResult

PNG = b"\x89PNG\r\n\x1a\n a picture"
CODED = b64encode(PNG).decode()
URL = f"data:image/png;base64,{CODED}"


def view(path: str, *, id: str = "call_1") -> Called:  # noqa: A002
    return Called("fs_view", json.dumps({"path": path}), id)


async def look(talk: Talk, api: Api, *paths: str) -> list[dict[str, Any]]:
    """The bodies of a turn in which the model looks at pictures, and of the next one."""
    for path in set(paths) - {"none.png"}:
        (talk.framework.workspace / path).write_bytes(PNG)
    calls = [view(path, id=f"call_{number}") for number, path in enumerate(paths)]
    await talk.say(api.answer("I look.", calls=calls), api.answer("A cat."))
    await talk.say("and?")
    return await talk.asked()


@pytest.mark.anyio
async def test_chat_completions_show_it_behind_the_results(talk: Talk) -> None:
    async with talk.open():
        _, seen, later = await look(talk, OPENAI, "shot.png", "none.png", "shot.png")
    *_, one, other, third, answer, shown = seen["messages"]
    assert [one["content"], third["content"]] == ["[image: shot.png, image/png, 18 bytes]"] * 2
    assert other["content"].startswith("error: none.png does not exist")
    assert (answer["role"], shown["role"]) == ("assistant", "user")
    picture = {"type": "image_url", "image_url": {"url": URL}}
    assert shown["content"] == [{"type": "text", "text": SHOWN}, picture, picture]
    assert later["messages"][: len(seen["messages"])] == seen["messages"]


@pytest.mark.anyio
async def test_what_the_user_says_behind_it_is_in_the_same_message(talk: Talk) -> None:
    """Templates of some servers want the two sides in turns."""
    refused = refusal({"error": {"message": "no"}}, 400)
    async with talk.open():
        (talk.framework.workspace / "shot.png").write_bytes(PNG)
        with pytest.raises(ModelError):
            await talk.say(OPENAI.answer("I look.", calls=[view("shot.png")]), refused)
        await talk.say(OPENAI.answer("On."))
    said = (await talk.asked())[-1]["messages"][-3:]
    assert [message["role"] for message in said] == ["tool", "assistant", "user"]
    assert [part["type"] for part in said[-1]["content"]] == ["text", "image_url", "text"]
    assert json.loads(said[-1]["content"][-1]["text"]) == [OPENAI.answer("On.")]


@pytest.mark.anyio
async def test_anthropic_has_it_in_the_result(talk: Talk) -> None:
    async with talk.open(api="anthropic"):
        _, seen, later = await look(talk, ANTHROPIC, "shot.png")
    (result,) = seen["messages"][-1]["content"]
    text, picture = result["content"]
    assert text == {"type": "text", "text": "[image: shot.png, image/png, 18 bytes]"}
    assert picture == {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": CODED}}
    assert json.dumps(later).count(CODED) == 1


def test_the_responses_api_has_it_in_the_output() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "fs.view", "arguments": "{}"}}
    picture = {"type": "image_url", "image_url": {"url": URL}}
    result = {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "shot.png"}, picture]}
    request = ChatRequest([{"role": "user", "content": "look"}, {"role": "assistant", "tool_calls": [call]}, result])
    endpoint = resolve_endpoint(
        {"model": "openai:gpt-5", "api_key": "k", "providers": {"openai": {"api": "responses"}}}
    )
    *_, output = responses.body(endpoint, request, ToolNames(request))["input"]
    assert output["output"] == [
        {"type": "input_text", "text": "shot.png"},
        {"type": "input_image", "image_url": URL, "detail": "auto"},
    ]


@pytest.mark.anyio
async def test_the_tape_names_it_and_keeps_it_beside_itself(talk: Talk) -> None:
    async with talk.open():
        await look(talk, OPENAI, "shot.png")
        (result,) = [entry for entry in await talk.tape() if entry.kind == "tool_result"]
        assert talk.of_kind("tool_result") == []  # that was the turn before
    (one,) = result.payload["results"]
    assert one["content"] == "[image: shot.png, image/png, 18 bytes]"
    assert CODED not in json.dumps(result.payload)


@pytest.mark.anyio
async def test_what_is_beyond_the_budget_is_named_alike_in_the_turn_and_after_it(talk: Talk) -> None:
    """Of 21 pictures of one turn half leave; the next turn, which reads the tape, begins with the same request."""
    async with talk.open():
        *_, seen, later = await look(talk, OPENAI, *(f"shot{number}.png" for number in range(21)))
    assert json.dumps(seen).count(CODED) == 10
    assert later["messages"][: len(seen["messages"])] == seen["messages"]


@pytest.mark.anyio
async def test_a_session_without_a_tape_can_look_too(talk: Talk) -> None:
    async with talk.open():
        (talk.framework.workspace / "shot.png").write_bytes(PNG)
        await talk.say(OPENAI.answer(calls=[view("shot.png")]), OPENAI.answer("A cat."), session="temp/1")
    assert CODED in json.dumps((await talk.asked())[-1])


def called(workspace: Path, path: str) -> ToolResult:
    (tool,) = [tool for tool in file_tools() if tool.name == "fs.view"]
    result = tool.function(path, context=ToolContext("s", workspace))
    assert isinstance(result, ToolResult)
    return result


@pytest.mark.parametrize(
    ("begin", "mime_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
def test_an_image_is_known_by_its_bytes(begin: bytes, mime_type: str, tmp_path: Path) -> None:
    (tmp_path / "picture.txt").write_bytes(begin)
    (one,) = called(tmp_path, "picture.txt").media
    assert (one["kind"], one["mime_type"], one["name"]) == ("image", mime_type, "picture.txt")


def test_what_cannot_be_viewed_says_why(tmp_path: Path) -> None:
    (tmp_path / "notes.png").write_text("just text", "utf-8")
    (tmp_path / "large.png").write_bytes(PNG + bytes(LARGEST_IMAGE))
    (tmp_path / ".env").write_bytes(PNG)
    (tmp_path / "photo.bmp").write_bytes(b"BM\0\0")
    told = {
        "notes.png": "no image (PNG, JPEG, GIF or WebP) (fs.read shows text and PDFs)",
        "photo.bmp": "no image",
        "large.png": "large.png is too large: it has 5,000,018 bytes, and an image may have 5,000,000",
        ".env": "holds keys",
        "none.png": "does not exist",
        "../x.png": "outside of the workspace",
        ".": "is a folder",
    }
    for path, why in told.items():
        with pytest.raises(ToolError, match=re.escape(why)):
            called(tmp_path, path)
