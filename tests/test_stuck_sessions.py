"""A session never gets stuck: whatever a model sent and wherever a turn ended, servers take the next request.

The scripted server refuses what real ones refuse (`fakes/strictness.py`), and so does llama.cpp's own, with a template
of Mistral's kind.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from fakes.scripted import ANTHROPIC, OPENAI, Api, Called, collect, events_of, refusal, serving
from fakes.strictness import NO_SYSTEM
from fakes.talk import Talk, add, adding, bringing
from fakes.toys import Toy

from bub.agent.local import parts
from bub.agent.loop.answer import LONGEST_NAME
from bub.agent.models.chat import Chat, ChatRequest, ToolSpec, stream_chat
from bub.agent.models.client import open_client
from bub.agent.models.conversation import BEGINNING, NO_ANSWER, well_formed, without_system
from bub.agent.models.endpoint import resolve_endpoint
from bub.errors import ModelError
from bub.streaming import AsyncStreamEvents
from bub.tape import Tape
from bub.tape.tape import tape_name

pytestmark = pytest.mark.anyio

each_api = pytest.mark.parametrize("api", [OPENAI, ANTHROPIC], ids=lambda api: api.name)
BROKEN = '{"a": 1, "b": '


def broken(api: Api) -> Any:
    return refusal(api.error("api_error", "out of order"), 500)


def inputs_of(request: dict[str, Any]) -> list[Any]:
    """The arguments of the calls in a request, whichever API it is for."""
    if any(isinstance(message["content"], list) for message in request["messages"]):
        blocks = [block for message in request["messages"] for block in message["content"]]
        return [block["input"] for block in blocks if block["type"] == "tool_use"]
    calls = [call for message in request["messages"] for call in message.get("tool_calls") or ()]
    return [json.loads(call["function"]["arguments"]) for call in calls]


def said_in(request: dict[str, Any]) -> str:
    return json.dumps(request["messages"])


# What a model sent.


@each_api
@pytest.mark.parametrize("written", [BROKEN, "a, b", '["a"]', '{"a": 1e999}', '{"a": NaN}'])
async def test_arguments_that_are_no_json_object_go_back_as_one(talk: Talk, api: Api, written: str) -> None:
    async with talk.open(api=api.name, toy=bringing(adding())):
        await talk.say(api.answer(calls=[Called("math_add", written)]), api.answer("sorry"))
        result = await talk.say(api.answer("Never mind."))
    assert result.model_output == "Never mind."
    assert inputs_of((await talk.asked())[-1]) == [{"arguments": written}]


@each_api
async def test_a_model_learns_that_its_answer_was_cut_within_a_call(talk: Talk, api: Api) -> None:
    calls = [add(1, 2), Called("math_add", BROKEN, "call_2")]
    ran: list[Any] = []
    reason = "length" if api is OPENAI else "max_tokens"
    async with talk.open(api=api.name, toy=bringing(adding(ran))):
        await talk.say(api.answer(calls=calls, reason=reason), api.answer("in two steps, then"))
    whole, cut = talk.of_kind("tool_result")
    assert (whole["content"], ran) == ("3", [(1, 2)])
    assert cut["content"].startswith("error: not called, because `max_tokens` cut your answer within the arguments")
    assert "several calls" in said_in((await talk.asked())[-1])


async def test_arguments_that_were_not_cut_are_not_said_to_be(talk: Talk) -> None:
    async with talk.open(toy=bringing(adding())):
        await talk.say(OPENAI.answer(calls=[Called("math_add", BROKEN)]), OPENAI.answer("sorry"))
    assert "are not a JSON object" in talk.of_kind("tool_result")[0]["content"]


async def test_a_name_that_has_no_end_is_cut(talk: Talk) -> None:
    async with talk.open():
        await talk.say(OPENAI.answer(calls=[Called("x" * 5_000)]), OPENAI.answer("sorry"))
        await talk.say(OPENAI.answer("on it goes"))
        tape = await talk.tape()
    told = json.dumps([*talk.events, *(entry.payload for entry in tape if entry.kind != "message")], default=str)
    assert "x" * (LONGEST_NAME - 1) in told
    assert "x" * LONGEST_NAME not in told


@each_api
async def test_a_blank_answer_is_an_error_that_a_person_can_read(talk: Talk, api: Api) -> None:
    async with talk.open(api=api.name):
        with pytest.raises(ModelError, match="answered without a word"):
            await talk.say(api.answer(" \n\n "))
        assert (await talk.say(api.answer("Hello."))).model_output == "Hello."


async def test_blanks_before_the_first_word_are_kept(talk: Talk) -> None:
    async with talk.open():
        assert (await talk.say(OPENAI.answer("\n\n    code", at_once=1))).model_output == "\n\n    code"


async def test_a_name_that_comes_in_pieces_is_of_one_call(talk: Talk) -> None:
    pieces = [
        {"index": 0, "id": "call_1", "function": {"name": "math_"}},
        {"index": 0, "function": {"name": "add"}},
        {"index": 0, "function": {"arguments": '{"a": 1, "b": 2}'}},
    ]
    chunks = [{"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]} for piece in pieces]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    async with talk.open(toy=bringing(adding())):
        await talk.say(events_of(*chunks, end, "[DONE]"), OPENAI.answer("three"))
    assert [(call["name"], call["content"]) for call in talk.of_kind("tool_result")] == [("math.add", "3")]


# Where a turn ended.


async def test_a_pause_that_the_server_wants_is_not_the_silence_of_a_model(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUB_RETRIES", "1")
    busy = refusal(OPENAI.error("rate_limit_error", "slow down"), 429, retry_after="1")
    async with talk.open(more="stages: {run_model: {idle_timeout: 500ms}}"):
        assert (await talk.say(busy, OPENAI.answer("Here."))).model_output == "Here."


@each_api
async def test_a_turn_goes_on_after_turns_that_failed(talk: Talk, api: Api) -> None:
    async with talk.open(api=api.name):
        await talk.say("My dog is called Bo.")
        for script in (broken(api), [*api.beginning("Well"), {"cut": True}], broken(api)):
            with pytest.raises(ModelError):
                await talk.say(script)
        assert (await talk.say(api.answer("Hello."))).model_output == "Hello."


@each_api
async def test_a_turn_goes_on_after_one_that_failed_behind_its_tools(talk: Talk, api: Api) -> None:
    async with talk.open(api=api.name, toy=bringing(adding())):
        with pytest.raises(ModelError):
            await talk.say(api.answer("I add.", calls=[add(1, 2), add(3, 4, id="call_2")]), broken(api))
        assert (await talk.say(api.answer("And so on."))).model_output == "And so on."
    if api is OPENAI:
        *_, result, answer, _ = (await talk.asked())[-1]["messages"]
        assert (result["content"], answer["content"]) == ("7", NO_ANSWER)


@each_api
async def test_a_session_goes_on_behind_an_anchor(talk: Talk, api: Api) -> None:
    async with talk.open(api=api.name) as framework:
        await talk.say("swordfish")
        tape = Tape(tape_name(framework.workspace, "cli:local"), framework.get_tape_store())
        await tape.handoff("phase two", {"summary": "we know enough"})
        await tape.handoff("phase three", {"summary": "go"})
        for _ in range(2):
            assert (await talk.say("And now?")).model_output
    last = (await talk.asked())[-1]
    assert next(message for message in last["messages"] if message["role"] == "user")["content"] in (
        BEGINNING,
        [{"type": "text", "text": BEGINNING}],
    )
    assert "phase three" in said_in(last)


@each_api
async def test_a_plugins_system_message_stands_in_front_wherever_it_was_put(talk: Talk, api: Api) -> None:
    def before_llm_call(request: dict[str, Any]) -> dict[str, Any]:
        return {"messages": [*request["messages"], {"role": "system", "content": "It is Tuesday."}]}

    async with talk.open(api=api.name, toy=Toy(before_llm_call=before_llm_call)):
        assert (await talk.say("Hello?")).model_output
    request = (await talk.asked())[-1]
    system = request["messages"][0]["content"] if api is OPENAI else json.dumps(request["system"])
    assert "You are Bub" in system
    assert "It is Tuesday." in system


# The shape itself.


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def model(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def test_what_one_side_says_in_a_row_is_one_message_with_all_its_parts() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": "1", "content": ""}
    said = [
        user("a"),
        user([{"type": "text", "text": "b"}, picture]),
        model("c"),
        model(" "),
        model(None, tool_calls=[call], reasoning_content="hm"),
        result,
        user(""),
    ]
    assert well_formed(said) == [
        user([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, picture]),
        model("c", tool_calls=[call], reasoning_content="hm"),
        result,
    ]


def test_what_is_well_formed_stays_as_it_is() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"at":  "me"}'}}
    result = {"role": "tool", "tool_call_id": "1", "content": "x"}
    said = [{"role": "system", "content": "s"}, user("a"), model(None, tool_calls=[call]), result, model("b")]
    assert well_formed(said) == said == well_formed(well_formed(said))


# A model that takes no system prompt.


@pytest.mark.parametrize("kind", NO_SYSTEM)
async def test_a_model_without_a_system_role_is_told_ahead_of_the_first_words(talk: Talk, kind: str) -> None:
    talk.model = f"{kind}-{talk.model}"
    async with talk.open(toy=Toy(system_prompt=lambda: "Be brief.")):
        await talk.say(OPENAI.answer("Hi."))
        await talk.say(OPENAI.answer("Hi again."))
    refused, *taken = [request["messages"] for request in await talk.asked()]
    assert [message["role"] for message in refused] == ["system", "user"]
    assert [[message["role"] for message in messages] for messages in taken] == [
        ["user"],
        ["user", "assistant", "user"],
    ]
    for messages in taken:  # and from then on at once, as the beginning of every request
        assert messages[0]["content"] == f"{refused[0]['content']}\n\n{refused[1]['content']}"
        assert "Be brief." in messages[0]["content"]


async def test_who_refuses_something_else_is_asked_once_more_and_then_heard(talk: Talk) -> None:
    no = refusal({"error": {"message": "System role not supported"}}, 400)
    async with talk.open(toy=Toy(system_prompt=lambda: "Be brief.")):
        with pytest.raises(ModelError, match="System role not supported"):
            await talk.say(no)
        with pytest.raises(ModelError, match="no more"):
            await talk.say(no, refusal({"error": {"message": "no more"}}, 400))
        await talk.say(OPENAI.answer("Hi."))
    assert [request["messages"][0]["role"] for request in await talk.asked()] == ["system", "user"] * 2 + ["system"]


async def test_without_a_system_prompt_such_words_are_an_error_as_any_other(talk: Talk) -> None:
    no = refusal({"error": {"message": "System role not supported"}}, 400)
    settings = {"model": f"test:{talk.model}", "api_base": f"{talk.address}/v1", "retries": 0}
    async with open_client() as client:
        with pytest.raises(ModelError, match="System role not supported"):
            await stream_chat(client, resolve_endpoint(settings), ChatRequest.of_prompt(json.dumps([no])))
    assert len(await talk.asked()) == 1


def test_a_system_prompt_and_parts_are_one_message() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    said = [
        {"role": "system", "content": "Be brief."},
        user([{"type": "text", "text": "What?"}, picture]),
        model("A cat."),
    ]
    told = [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "What?"}, picture]
    assert without_system(said) == [user(told), model("A cat.")]
    assert without_system([user("a")]) == [user("a")]


# llama.cpp's own server.


def serving_small(option: str) -> AbstractContextManager[str]:
    return serving(str(parts.status(Path(os.devnull)).weights), option, program="local_server.py")


@pytest.fixture(scope="module")
def llama() -> Iterator[str]:
    """Serve the small model with a template of Mistral's kind."""
    with serving_small("--alternating") as address:
        yield address


needs_model = pytest.mark.skipif(
    not parts.status(Path(os.devnull)).ready, reason="the small model is not in this environment: `make test`"
)


@pytest.mark.model
@needs_model
@pytest.mark.parametrize("arguments", [BROKEN, '{"n": 1e999}'])
async def test_llama_cpp_takes_a_conversation_with_all_that_went_wrong(llama: str, arguments: str) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": arguments}}
    messages = [
        {"role": "system", "content": "Be brief."},
        model("[Anchor created: x]"),
        user("a failed turn"),
        user("Look."),
        model(None, tool_calls=[call]),
        {"role": "tool", "tool_call_id": "1", "content": "error: cut"},
        user("And?"),
        {"role": "system", "content": "It is Tuesday."},
    ]
    settings = {"model": "llama:small", "api_base": f"{llama}/v1", "max_tokens": 24, "retries": 0}
    request = ChatRequest(messages, tools=[ToolSpec("look", "Look.", {"type": "object", "properties": {}})])
    async with open_client() as client:
        events = await collect(await stream_chat(client, resolve_endpoint(settings), request))
    assert events[-1].kind == "final"


@pytest.mark.model
@needs_model
async def test_llama_cpp_with_a_template_of_gemmas_kind_answers() -> None:
    messages = [
        {"role": "system", "content": "You answer in one word, and never in more than that."},
        user("Hi."),
        model("Hi."),
        user("And?"),
    ]
    with serving_small("--no-system") as address:
        settings = {"model": "llama:small", "api_base": f"{address}/v1", "max_tokens": 12, "retries": 0}
        known: set[str] = set()
        async with open_client() as client:
            for _ in range(2):
                chat = Chat(client, resolve_endpoint(settings), ChatRequest(messages), take_no_system=known)
                came = await chat.go_on()
                assert isinstance(came, AsyncStreamEvents)
                assert (await collect(came))[-1].kind == "final"
    assert known == {f"llama:small ({address.removeprefix('http://')})"}
