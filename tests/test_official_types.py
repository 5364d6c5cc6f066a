"""What Bub sends is what the official packages would send: bodies of a long session, held against their types."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from fakes.scripted import ANTHROPIC, OPENAI, Api, Called, refusal
from fakes.talk import Talk, add, adding, bringing

from bub.errors import ModelError

pytestmark = pytest.mark.anyio

PICTURE = {
    "kind": "image",
    "mime_type": "image/png",
    "url": f"data:image/png;base64,{base64.b64encode(b'a picture').decode()}",
}
TURNS = 20


async def hold_session(talk: Talk, api: Api) -> list[dict[str, Any]]:
    """Talk for many turns, some of which go wrong, and return the bodies that were sent."""
    cut = "length" if api is OPENAI else "max_tokens"
    async with talk.open(api=api.name, toy=bringing(adding())):
        for turn in range(TURNS):
            call, other = add(turn, 1, id=f"call_{turn}"), add(turn, 2, id=f"other_{turn}")
            match turn % 5:
                case 0:
                    await talk.say(api.answer("A picture.", thinks="hm"), media=[PICTURE])
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


async def test_bodies_are_of_the_types_of_the_package_openai(talk: Talk) -> None:
    types = pytest.importorskip("openai.types.chat.completion_create_params")
    bodies = await hold_session(talk, OPENAI)
    for message in [message for body in bodies for message in body["messages"]]:
        message.pop("reasoning_content", None)  # DeepSeek and Kimi want it back; the types of OpenAI do not know it
    assert [reason for body in bodies if (reason := refused(body, types.CompletionCreateParamsStreaming))] == []
    assert "math_add" in json.dumps(bodies[-1])
    assert refused({**bodies[-1], "messages": [{"role": "user"}]}, types.CompletionCreateParamsStreaming)


async def test_bodies_are_of_the_types_of_the_package_anthropic(talk: Talk) -> None:
    types = pytest.importorskip("anthropic.types.message_create_params")
    bodies = await hold_session(talk, ANTHROPIC)
    assert [reason for body in bodies if (reason := refused(body, types.MessageCreateParamsStreaming))] == []
    assert "math_add" in json.dumps(bodies[-1])
    wrong = {"role": "user", "content": [{"type": "text"}]}
    assert refused({**bodies[-1], "messages": [wrong]}, types.MessageCreateParamsStreaming)
