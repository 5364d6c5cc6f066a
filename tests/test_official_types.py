"""What Bub sends is what the official packages would send: bodies of a long session, held against their types."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from fakes.paper import pdf
from fakes.scripted import ANTHROPIC, OPENAI, Api, Called, refusal
from fakes.talk import Talk, add, adding, bringing

from bub.agent.models.apis import anthropic, openai, responses
from bub.agent.models.endpoint import resolve_endpoint
from bub.agent.models.names import ToolNames
from bub.agent.models.request import ChatRequest
from bub.errors import ModelError

PICTURE = {
    "kind": "image",
    "mime_type": "image/png",
    "url": f"data:image/png;base64,{base64.b64encode(b'a picture').decode()}",
}
PNG = b"\x89PNG\r\n\x1a\n a screenshot"
TURNS = 20


PDF = {
    "kind": "document",
    "mime_type": "application/pdf",
    "url": f"data:application/pdf;base64,{base64.b64encode(pdf(['A page'])).decode()}",
    "name": "report.pdf",
}


async def hold_session(talk: Talk, api: Api) -> list[dict[str, Any]]:
    """Talk for many turns, some of which go wrong, and return the bodies that were sent."""
    cut = "length" if api is OPENAI else "max_tokens"
    async with talk.open(api=api.name, toy=bringing(adding())):
        (talk.framework.workspace / "shot.png").write_bytes(PNG)
        for turn in range(TURNS):
            call, other = add(turn, 1, id=f"call_{turn}"), add(turn, 2, id=f"other_{turn}")
            match turn % 5:
                case 0:
                    look = Called("fs_view", json.dumps({"path": "shot.png"}), f"call_{turn}")
                    await talk.say(
                        api.answer("I look.", thinks="hm", calls=[look, other]),
                        api.answer("A picture.", thinks="hm"),
                        media=[PICTURE, PDF],
                    )
                case 1:
                    await talk.say(api.answer("I add.", thinks="hm", calls=[call, other]), api.answer("There."))
                case 2:
                    broken = Called("math_add", '{"a": 1, ', f"call_{turn}")
                    await talk.say(api.answer(calls=[broken], reason=cut), api.answer("Sorry."))
                case 3:
                    with pytest.raises(ModelError):
                        await talk.say(api.answer(calls=[call]), refusal(api.error("api_error", "down"), 500))
                case 4:
                    note = Called("tape_handoff", json.dumps({"name": f"part {turn}"}), f"call_{turn}")
                    await talk.say(api.answer(calls=[note]) if turn == 9 else api.answer("Fine."), api.answer("On."))
    bodies = await talk.asked()
    assert len(bodies) > TURNS
    return bodies


def refused(body: dict[str, Any], kind: Any) -> str:
    """Why a body is not of a type of the packages, or ""; a key that the type does not know is a reason, too."""
    from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

    adapter = TypeAdapter(with_config(ConfigDict(extra="forbid"))(kind))
    try:
        checked = adapter.validate_python(body)
    except ValidationError as error:
        return str(error)
    # Lists are lazy iterators in a validated value: nothing is wrong with one before it was read.
    return exhaust(checked)


def exhaust(value: Any) -> str:
    from pydantic import ValidationError

    try:
        pending = [value]
        while pending:
            one = pending.pop()
            if isinstance(one, dict):
                pending += one.values()
            elif hasattr(one, "__iter__") and not isinstance(one, str | bytes):
                pending += one
    except ValidationError as error:
        return str(error)
    return ""


@pytest.mark.anyio
async def test_bodies_are_of_the_types_of_the_package_openai(talk: Talk) -> None:
    types = pytest.importorskip("openai.types.chat.completion_create_params")
    bodies = await hold_session(talk, OPENAI)
    for message in [message for body in bodies for message in body["messages"]]:
        message.pop("reasoning_content", None)  # DeepSeek and Kimi want it back; the types of OpenAI do not know it
    assert [reason for body in bodies if (reason := refused(body, types.CompletionCreateParamsStreaming))] == []
    assert "math_add" in json.dumps(bodies[-1])
    assert json.dumps(bodies[-1]).count(base64.b64encode(PNG).decode()) == 2  # since the handoff
    assert refused({**bodies[-1], "messages": [{"role": "user"}]}, types.CompletionCreateParamsStreaming)


@pytest.mark.anyio
async def test_bodies_are_of_the_types_of_the_package_anthropic(talk: Talk) -> None:
    types = pytest.importorskip("anthropic.types.message_create_params")
    bodies = await hold_session(talk, ANTHROPIC)
    assert [reason for body in bodies if (reason := refused(body, types.MessageCreateParamsStreaming))] == []
    assert "math_add" in json.dumps(bodies[-1])
    assert json.dumps(bodies[-1]).count(base64.b64encode(PNG).decode()) == 2  # since the handoff
    wrong = {"role": "user", "content": [{"type": "text"}]}
    assert refused({**bodies[-1], "messages": [wrong]}, types.MessageCreateParamsStreaming)


FILE = {"type": "file", "file": {"filename": "report.pdf", "file_data": PDF["url"]}}
SHOWN = {"type": "image_url", "image_url": {"url": PICTURE["url"]}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "fs.view", "arguments": "{}"}}
SEEN = ChatRequest(
    [
        {"role": "user", "content": [{"type": "text", "text": "look"}, SHOWN, FILE]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "shot.png"}, SHOWN]},
    ]
)


@pytest.mark.parametrize(
    ("model", "module", "name"),
    [
        ("openai:gpt-5", "openai.types.chat.completion_create_params", "CompletionCreateParamsStreaming"),
        ("openai:gpt-5", "openai.types.responses.response_create_params", "ResponseCreateParamsStreaming"),
        ("anthropic:claude-sonnet-4-5", "anthropic.types.message_create_params", "MessageCreateParamsStreaming"),
    ],
)
def test_pictures_of_tools_and_pdfs_are_of_the_types_of_each_api(model: str, module: str, name: str) -> None:
    kind = getattr(pytest.importorskip(module), name)
    api = "responses" if "Response" in name else model.partition(":")[0]
    provider = {model.partition(":")[0]: {"api": api, "api_key": "sk"}}
    dialect = {"openai": openai, "responses": responses, "anthropic": anthropic}[api]
    body = dialect.body(resolve_endpoint({"model": model, "providers": provider}), SEEN, ToolNames(SEEN))
    assert refused(body, kind) == ""
    written = json.dumps(body)
    assert written.count(PICTURE["url"].partition(",")[2]) == 2
    assert written.count(PDF["url"].partition(",")[2]) == 1
