"""Asking a model through OpenAI's chat completions and through Anthropic's Messages: one behaviour, two wires.

Where nothing else is said a test runs with both, against the scripted server (`fakes/scripted.py`).
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import trio
from fakes.scripted import (
    ANTHROPIC,
    OPENAI,
    Api,
    Called,
    Script,
    Server,
    collect,
    events_of,
    refusal,
    text_of,
)

from bub.agent.models.chat import ChatRequest, ToolSpec, stream_chat
from bub.agent.models.client import open_client
from bub.agent.models.conversation import NO_ANSWER
from bub.agent.models.endpoint import resolve_endpoint
from bub.agent.models.usage import tokens_of
from bub.errors import ModelError
from bub.streaming import StreamEvent

KEY = "sk-very-secret-4711"
READ = ToolSpec(
    "fs.read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
)
BASH = ToolSpec("bash", "Run a command.", {"type": "object", "properties": {}})
TOOLS = (READ, BASH)
IMAGE = "iVBORw0KGgo="


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with open_client() as shared:
        yield shared


@pytest.fixture(params=[OPENAI, ANTHROPIC], ids=lambda api: api.name)
def api(request: pytest.FixtureRequest) -> Api:
    which: Api = request.param
    return which


class Speaking(Server):
    """The scripted server, asked through one API."""

    def __init__(self, client: httpx.AsyncClient, address: str, api: str) -> None:
        super().__init__(client, address)
        self.api = api

    def endpoint(self, **settings: Any) -> Any:
        return super().endpoint(**{"providers": {"test": {"api": self.api}}, **settings})


@pytest.fixture
async def server(client: httpx.AsyncClient, address: str, api: Api) -> Speaking:
    return Speaking(client, address, api.name)


@pytest.fixture
async def anthropic(client: httpx.AsyncClient, address: str) -> Speaking:
    return Speaking(client, address, "anthropic")


@pytest.fixture
async def openai(client: httpx.AsyncClient, address: str) -> Speaking:
    return Speaking(client, address, "openai")


def calls_of(events: list[StreamEvent]) -> list[dict[str, Any]]:
    return [dict(event.data) for event in events if event.kind == "tool_call"]


def reason_of(events: list[StreamEvent]) -> Any:
    assert [event.kind for event in events].count("final") == 1
    return events[-1].data["finish_reason"]


# Answers


@pytest.mark.anyio
async def test_an_answer_streams_as_what_is_thought_what_is_said_and_what_it_cost(server: Speaking, api: Api) -> None:
    stream = await server.open(api.answer("Hello there", thinks="Let me see.", usage=(7, 4)))
    events = await collect(stream)
    assert text_of(events, "reasoning") == "Let me see."
    assert text_of(events) == "Hello there"
    assert [event.kind for event in events[-2:]] == ["usage", "final"]
    assert tokens_of(events[-2].data) == tokens_of(stream.state.usage) == 11
    assert reason_of(events) == "stop"


@pytest.mark.anyio
async def test_any_message_is_answered(server: Speaking) -> None:
    events = await collect(await stream_chat(server.client, server.endpoint(), ChatRequest.of_prompt("hi", "Be brief")))
    assert text_of(events) == "You said: hi"
    assert tokens_of(events[-2].data) == 6


@pytest.mark.anyio
@pytest.mark.parametrize("at_once", [1, 3, 1000])
async def test_side_by_side_calls_come_whole_and_in_order_however_they_are_cut(
    server: Speaking, api: Api, at_once: int
) -> None:
    arguments = '{"path": "a\\"b\\\\c \\u00e9 \N{SNOWMAN}", "deep": {"n": [1, 2.5, null]}}'
    calls = [Called("fs_read", arguments, "call_a"), Called("bash", "", "call_b"), Called("fs_read", "{}", "call_c")]
    script = api.answer("On it.", calls=calls, at_once=at_once)
    events = await server.ask(script, tools=TOOLS)
    assert text_of(events) == "On it."
    assert calls_of(events) == [
        {"id": "call_a", "name": "fs.read", "arguments": json.loads(arguments), "raw": arguments},
        {"id": "call_b", "name": "bash", "arguments": {}, "raw": ""},
        {"id": "call_c", "name": "fs.read", "arguments": {}, "raw": "{}"},
    ]
    assert reason_of(events) == "tool_calls"


@pytest.mark.anyio
async def test_calls_alone_are_an_answer_where_tools_were_offered(server: Speaking, api: Api) -> None:
    script = api.answer(calls=[Called("bash")])
    events = await server.ask(script, tools=TOOLS)
    assert [event.kind for event in events] == ["tool_call", "usage", "final"]
    error = await server.fail(script)
    assert error.kind == "bad_answer"
    assert "called a tool" in str(error)


@pytest.mark.anyio
async def test_a_call_is_told_as_it_is_even_if_nobody_could_run_it(server: Speaking, api: Api) -> None:
    calls = [Called("fs_raed", "{}", "call_a"), Called("bash", '{"cmd": ', "call_b"), Called("bash", "[]", "call_c")]
    events = await server.ask(api.answer(calls=calls), tools=TOOLS)
    assert [(call["name"], call["arguments"], call["raw"]) for call in calls_of(events)] == [
        ("fs_raed", {}, "{}"),
        ("bash", None, '{"cmd": '),
        ("bash", None, "[]"),
    ]


@pytest.mark.anyio
async def test_a_call_that_was_cut_off_before_its_arguments_has_none(server: Speaking, api: Api) -> None:
    reason = {"openai": "length", "anthropic": "max_tokens"}[api.name]
    calls = [Called("bash", "", "call_a"), Called("bash", "", "call_b")]
    events = await server.ask(api.answer(calls=calls, reason=reason), tools=TOOLS)
    assert [call["arguments"] for call in calls_of(events)] == [{}, None]
    assert reason_of(events) == "length"


@pytest.mark.anyio
async def test_no_two_calls_of_a_conversation_have_one_id(server: Speaking, api: Api) -> None:
    calls = [Called("bash", "{}", "call_0"), Called("bash", '{"again": 1}', ""), Called("bash", '{"new": 2}', "call_1")]
    history = [{"id": "call_0", "type": "function", "function": {"name": "bash", "arguments": "{}"}}]
    request = ChatRequest(
        [
            {"role": "user", "content": json.dumps([api.answer(calls=calls)])},
            {"role": "assistant", "content": None, "tool_calls": history},
            {"role": "tool", "tool_call_id": "call_0", "content": "done"},
        ],
        tools=TOOLS,
    )
    events = await collect(await stream_chat(server.client, server.endpoint(), request))
    ids = [call["id"] for call in calls_of(events)]
    assert ids[2] == "call_1"
    assert len({"call_0", "", *ids}) == 5


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("end_turn", "stop"), ("stop_sequence", "stop"), ("max_tokens", "length"), ("refusal", "content_filter")],
)
async def test_how_an_answer_ended_is_said_in_openais_words(anthropic: Speaking, theirs: str, ours: str) -> None:
    assert reason_of(await anthropic.ask(ANTHROPIC.answer("Well", reason=theirs))) == ours


@pytest.mark.anyio
async def test_a_refusal_in_words_is_an_answer_and_one_without_is_an_error(server: Speaking, api: Api) -> None:
    if api is OPENAI:
        events = await server.ask(
            events_of({"choices": [{"delta": {"refusal": "I cannot."}, "finish_reason": "stop"}]})
        )
    else:
        events = await server.ask(api.answer("I cannot.", reason="refusal"))
    assert text_of(events) == "I cannot."
    silent = api.answer(reason={"openai": "content_filter", "anthropic": "refusal"}[api.name])
    assert "content filter" in str(await server.fail(silent))


@pytest.mark.anyio
async def test_an_answer_that_comes_all_at_once_is_the_same(server: Speaking, api: Api) -> None:
    if api is OPENAI:
        calls = [{"id": "call_1", "type": "function", "function": {"name": "fs_read", "arguments": '{"path": "a"}'}}]
        whole: dict[str, Any] = {
            "choices": [{"message": {"content": "All", "tool_calls": calls}, "finish_reason": "tool_calls"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2},
        }
    else:
        call = {"type": "tool_use", "id": "call_1", "name": "fs_read", "input": {"path": "a"}}
        whole = {
            "type": "message",
            "content": [{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "All"}, call],
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 3, "output_tokens": 2},
        }
    events = await server.ask([{"body": json.dumps(whole)}], tools=TOOLS)
    assert text_of(events) == "All"
    assert [(call["name"], call["arguments"]) for call in calls_of(events)] == [("fs.read", {"path": "a"})]
    assert tokens_of(events[-2].data) == 5
    assert reason_of(events) == "tool_calls"


@pytest.mark.anyio
async def test_what_servers_leave_out_or_add_is_no_trouble(anthropic: Speaking) -> None:
    text = {"type": "text_delta", "text": "Hello"}
    events = await anthropic.ask(
        events_of(
            {"type": "content_block_delta", "index": 0, "delta": text},  # nothing of the message has started
            {"type": "content_block_start", "index": 1, "content_block": {"type": "server_tool_use", "name": "x"}},
            {"type": "novelty", "deep": [1]},
            {"type": "content_block_delta", "index": 1, "delta": {"type": "citations_delta", "citation": {}}},
            # A whole input with the start of a block, and one that pieces go over.
            {"type": "content_block_start", "index": 2, "content_block": _use("call_a", {"path": "a"})},
            {"type": "content_block_stop", "index": 2},
            {"type": "content_block_start", "index": 3, "content_block": _use("call_b", {"path": "?"})},
            {"type": "content_block_delta", "index": 3, "delta": _json('{"path": "b"}')},
            {"type": "content_block_stop", "index": 3},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        ),
        tools=TOOLS,
    )
    assert text_of(events) == "Hello"
    assert [call["arguments"] for call in calls_of(events)] == [{"path": "a"}, {"path": "b"}]


def _use(call_id: str, given: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "fs_read", "input": given}


def _json(piece: str) -> dict[str, Any]:
    return {"type": "input_json_delta", "partial_json": piece}


@pytest.mark.anyio
async def test_half_characters_in_arguments_become_whole(server: Speaking, api: Api) -> None:
    # The standard library writes lone surrogates as escapes, as servers do that split characters.
    script = api.answer(calls=[Called("bash", '{"say": "\ud83d\ude00"}')], at_once=1)
    (call,) = calls_of(await server.ask(script, tools=TOOLS))
    assert call["arguments"] == {"say": "\N{GRINNING FACE}"}
    assert call["raw"].encode()


# Requests


def messages() -> list[dict[str, Any]]:
    """A conversation with all that can be in one."""
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}", "detail": "low"}}
    calls = [
        {"id": "call_1", "type": "function", "function": {"name": "fs.read", "arguments": '{"path": "a"}'}},
        {"id": "b:2", "type": "function", "function": {"name": "gone.tool", "arguments": "oops"}},
    ]
    return [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "What is this?"}, picture]},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call_1", "content": "alpha"},
        {"role": "tool", "tool_call_id": "b:2", "content": ""},
        {"role": "user", "content": "Go on."},
        {"role": "user", "content": "Now."},
    ]


@pytest.mark.anyio
async def test_a_request_in_openais_form(openai: Speaking) -> None:
    body = await openai.send(ChatRequest(messages(), 50, 0.5, TOOLS, "fs.read"), api_key=KEY)
    wanted = messages()
    wanted[2]["tool_calls"][0]["function"]["name"] = "fs_read"
    wanted[2]["tool_calls"][1]["function"] = {"name": "gone_tool", "arguments": '{"arguments": "oops"}'}
    wanted[5:] = [{"role": "assistant", "content": NO_ANSWER}, {"role": "user", "content": "Go on.\n\nNow."}]
    assert body == {
        "model": openai.model,
        "messages": wanted,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 50,
        "temperature": 0.5,
        "tools": [
            {
                "type": "function",
                "function": {"name": "fs_read", "description": "Read a file.", "parameters": READ.parameters},
            },
            {
                "type": "function",
                "function": {"name": "bash", "description": "Run a command.", "parameters": BASH.parameters},
            },
        ],
        "tool_choice": {"type": "function", "function": {"name": "fs_read"}},
    }


@pytest.mark.anyio
async def test_a_request_in_anthropics_form(anthropic: Speaking) -> None:
    body = await anthropic.send(ChatRequest(messages(), 50, 1.5, TOOLS, "fs.read"), api_key=KEY)
    [asked] = await anthropic.log()
    assert asked["path"] == "/v1/messages"
    assert asked["headers"]["x-api-key"] == KEY
    assert asked["headers"]["anthropic-version"] == "2023-06-01"
    assert "authorization" not in asked["headers"]
    cached = {"cache_control": {"type": "ephemeral"}}
    odd = body["messages"][1]["content"][1].pop("id")
    assert body["messages"][2]["content"][1].pop("tool_use_id") == odd != "b:2"
    assert body == {
        "model": anthropic.model,
        "max_tokens": 50,
        "temperature": 1.0,
        "stream": True,
        "tools": [
            {"name": "fs_read", "description": "Read a file.", "input_schema": READ.parameters},
            {"name": "bash", "description": BASH.description, "input_schema": BASH.parameters, **cached},
        ],
        "tool_choice": {"type": "tool", "name": "fs_read"},
        "system": [{"type": "text", "text": "Be brief.", **cached}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "call_1", "name": "fs_read", "input": {"path": "a"}},
                    {"type": "tool_use", "name": "gone_tool", "input": {"arguments": "oops"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "call_1", "content": [{"type": "text", "text": "alpha"}]},
                    {"type": "tool_result"},
                    {"type": "text", "text": "Go on.\n\nNow.", **cached},
                ],
            },
        ],
    }


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("choice", "openais", "anthropics"),
    [
        (None, None, None),
        ("auto", "auto", {"type": "auto"}),
        ("required", "required", {"type": "any"}),
        ("none", "none", {"type": "none"}),
    ],
)
async def test_the_choice_of_a_tool_is_said_in_each_apis_words(
    openai: Speaking, anthropic: Speaking, choice: str | None, openais: Any, anthropics: Any
) -> None:
    request = ChatRequest([{"role": "user", "content": "hi"}], tools=TOOLS, tool_choice=choice)
    assert (await openai.send(request)).get("tool_choice") == openais
    assert (await anthropic.send(request)).get("tool_choice") == anthropics
    without = ChatRequest([{"role": "user", "content": "hi"}], tool_choice=choice)
    assert {"tools", "tool_choice"}.isdisjoint({**await openai.send(without), **await anthropic.send(without)})


@pytest.mark.anyio
async def test_what_anthropic_would_refuse_is_written_otherwise(anthropic: Speaking) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "fs.read", "arguments": "{}"}}
    body = await anthropic.send(
        ChatRequest(
            [
                {"role": "assistant", "content": "[Anchor created: x]"},
                {"role": "user", "content": [{"type": "text", "text": " \n"}, {"type": "text", "text": "hi"}]},
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "user", "content": "Wait."},
                {"role": "tool", "tool_call_id": "call_1", "content": "alpha"},
                {"role": "developer", "content": "Be brief."},
            ]
        )
    )
    first, anchor, hi, use, results = body["messages"]
    assert (first["role"], anchor["role"]) == ("user", "assistant")  # the user begins
    assert [block["text"] for block in hi["content"]] == ["hi"]  # nothing blank
    assert [block["type"] for block in use["content"]] == ["tool_use"]
    assert [block["type"] for block in results["content"]] == ["tool_result", "text"]  # results first
    assert body["system"][0]["text"] == "Be brief."
    assert body["max_tokens"] == 8192  # it wants a limit
    assert [tool["name"] for tool in body["tools"]] == ["fs_read"]  # and the tools of the calls
    assert body["tool_choice"] == {"type": "none"}


@pytest.mark.anyio
async def test_an_image_on_the_web_is_sent_as_its_address(anthropic: Speaking) -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    body = await anthropic.send(ChatRequest.of_prompt([{"type": "text", "text": "See"}, picture]))
    assert body["messages"][0]["content"][1]["source"] == {"type": "url", "url": "https://example.com/a.png"}


@pytest.mark.anyio
async def test_a_longer_conversation_begins_with_the_shorter_one_so_that_caches_keep_it(server: Speaking) -> None:
    def told(upto: int) -> ChatRequest:
        return ChatRequest(messages()[:upto], tools=TOOLS)

    shorter, longer = [without_marks(await server.send(told(upto))) for upto in (5, 7)]
    said, more = shorter.pop("messages"), longer.pop("messages")
    assert shorter == longer
    *before, last = said
    assert more[: len(before)] == before
    assert json.dumps(more[len(before)])[:-2].startswith(json.dumps(last)[:-2])


def without_marks(body: dict[str, Any]) -> dict[str, Any]:
    marked = json.dumps(body).replace(', "cache_control": {"type": "ephemeral"}', "")
    plain: dict[str, Any] = json.loads(marked)
    return plain


@pytest.mark.anyio
async def test_mistral_gets_ids_of_the_one_kind_it_takes(client: httpx.AsyncClient, address: str) -> None:
    server = Server(client, address)
    settings = {"model": f"mistral:{server.model}", "api_base": f"{address}/v1", "api_key": KEY}
    body = await server.send(ChatRequest(messages(), tools=TOOLS), **settings)
    ids = [call["id"] for call in body["messages"][2]["tool_calls"]]
    assert ids == [message["tool_call_id"] for message in body["messages"][3:5]]
    assert all(len(call_id) == 9 and call_id.isalnum() for call_id in ids)


@pytest.mark.anyio
async def test_a_number_of_any_size_and_half_a_character_can_be_sent(server: Speaking) -> None:
    tool = ToolSpec("big", "\ud83d", {"type": "object", "properties": {"n": {"type": "integer", "maximum": 2**70}}})
    body = await server.send(ChatRequest([{"role": "user", "content": "hi"}], tools=(tool,)))
    assert str(2**70) in json.dumps(body["tools"])
    assert "\N{REPLACEMENT CHARACTER}" in json.dumps(body["tools"], ensure_ascii=False)


# Which API is asked


def test_anthropic_is_asked_natively_and_any_server_can_be() -> None:
    assert resolve_endpoint({"model": "anthropic:m", "api_key": KEY}).url == "https://api.anthropic.com/v1/messages"
    settings = {
        "model": "box:m",
        "providers": {"box": {"api": "anthropic", "api_base": "http://box:8080/v1/messages/"}},
    }
    assert resolve_endpoint(settings).url == "http://box:8080/v1/messages"
    settings = {"model": "anthropic:m", "api_key": KEY, "providers": {"anthropic": {"api": "openai"}}}
    assert resolve_endpoint(settings).url == "https://api.anthropic.com/v1/chat/completions"


def test_an_api_that_is_none_is_refused_without_being_shown() -> None:
    with pytest.raises(ModelError, match=r"`providers.box.api` names no API") as caught:
        resolve_endpoint({"model": "box:m", "api_base": "http://box/v1", "providers": {"box": {"api": KEY}}})
    assert caught.value.help == "write openai, anthropic or responses"
    assert KEY not in f"{caught.value!r} {caught.value.help}"


# Faults


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("status", "kind", "says"),
    [
        (400, "request", "refused the request (400): over there"),
        (401, "refused_key", "refused the API key (401): over there"),
        (404, "request", "does not know the model"),
        (429, "rate_limited", "got too many requests (429): over there"),
        (500, "server", "a problem of its own (500): over there"),
        (529, "server", "a problem of its own (529): over there"),
    ],
)
async def test_a_refusal_is_one_clear_error(server: Speaking, api: Api, status: int, kind: str, says: str) -> None:
    error = await server.fail(refusal(api.error("some_error", "over there"), status), api_key=KEY)
    assert (error.kind, says in str(error)) == (kind, True)


@pytest.mark.anyio
async def test_who_asks_too_often_waits_as_long_as_it_is_told(server: Speaking, api: Api) -> None:
    busy = refusal(api.error("rate_limit_error", "slow down"), 429, retry_after="0.3")
    started = time.monotonic()
    events = await server.ask(busy, busy, api.answer("Hello"), retries=2)
    assert 0.6 <= time.monotonic() - started < 2
    assert text_of(events) == "Hello"


@pytest.mark.anyio
async def test_a_server_in_trouble_is_asked_again_and_the_turn_bounds_it(server: Speaking, api: Api) -> None:
    trouble = api.error("api_error", "oh no")
    at_once = refusal(trouble, 500, retry_after="0")
    assert text_of(await server.ask(at_once, api.answer("Hello"), retries=1)) == "Hello"
    with trio.move_on_after(0.1) as scope:
        await server.ask(refusal(trouble, 500), retries=9)
    assert scope.cancelled_caught


@pytest.mark.anyio
@pytest.mark.parametrize(("kind", "becomes"), [("overloaded_error", "server"), ("rate_limit_error", "rate_limited")])
async def test_an_error_in_a_stream_is_tried_again_only_before_anything_was_shown(
    server: Speaking, api: Api, kind: str, becomes: str
) -> None:
    overloaded = events_of(api.error(kind, "Overloaded"))
    assert text_of(await server.ask(overloaded, api.answer("Hello"), retries=1)) == "Hello"
    error = await server.fail([*api.beginning("Hel"), *overloaded], api.answer("Hello"), retries=1)
    assert error.kind == becomes
    assert len(await server.log()) == 3


@pytest.mark.anyio
async def test_a_stream_that_is_cut_keeps_what_was_said_and_drops_what_was_to_be_done(
    server: Speaking, api: Api
) -> None:
    whole = api.answer("Hel", calls=[Called("bash", '{"cmd": "rm"}')], at_once=3)
    until = max(at for at, step in enumerate(whole) if "arguments" in str(step) or "partial_json" in str(step))
    stream = await server.open([*whole[: until + 1], {"cut": True}], tools=TOOLS, retries=2)
    heard: list[StreamEvent] = []
    with pytest.raises(ModelError) as caught:
        async for event in stream:
            heard.append(event)
    assert text_of(heard) == "Hel"
    assert calls_of(heard) == []
    assert caught.value.kind == "cut_stream"
    assert len(await server.log()) == 1


@pytest.mark.anyio
async def test_a_call_that_is_cut_before_anything_was_shown_is_asked_for_again(server: Speaking, api: Api) -> None:
    whole = api.answer(calls=[Called("bash", '{"cmd": "ls"}')])
    events = await server.ask([*whole[:4], {"cut": True}], whole, tools=TOOLS, retries=1)
    assert [call["arguments"] for call in calls_of(events)] == [{"cmd": "ls"}]


@pytest.mark.anyio
@pytest.mark.parametrize("event", ["not json", [1], {"choices": "none", "type": 1}, "[" * 100_000])
async def test_an_event_that_makes_no_sense_is_said_to(server: Speaking, api: Api, event: Any) -> None:
    error = await server.fail([*api.beginning("Hel"), *events_of(event)])
    assert error.kind == "bad_answer"
    assert {"openai": "OpenAI", "anthropic": "Anthropic"}[api.name] in (error.help or "")


@pytest.mark.anyio
async def test_the_other_apis_answer_is_not_taken_for_one(anthropic: Speaking) -> None:
    error = await anthropic.fail(OPENAI.beginning("Hello"))
    assert error.kind == "bad_answer"


@pytest.mark.anyio
async def test_what_comes_behind_the_end_of_an_answer_is_no_part_of_it(server: Speaking, api: Api) -> None:
    events = await server.ask([*api.answer("Hello"), *api.beginning(" again"), *events_of("not json")])
    assert text_of(events) == "Hello"
    assert reason_of(events) == "stop"


@pytest.mark.anyio
async def test_a_slow_server_is_waited_for_between_its_words_only(server: Speaking, api: Api) -> None:
    slowly: Script = []
    for step in api.answer("Hello there"):
        slowly += [{"pause": 0.03}, step]
    assert text_of(await server.ask(slowly, timeout="150ms")) == "Hello there"
    error = await server.fail([*api.beginning("Hel"), {"hold": True}], timeout="50ms")
    assert error.kind == "timeout"


@pytest.mark.anyio
async def test_A13_a_conversation_that_is_too_long_is_told_apart_and_not_sent_again(server: Speaking, api: Api) -> None:
    too_long = api.error("invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum")
    for script in (refusal(too_long, 400), events_of(too_long)):
        error = await server.fail(script, retries=2)
        assert error.kind == "context_overflow"
    assert len(await server.log()) == 2


@pytest.mark.anyio
async def test_A13_a_model_that_ran_into_its_limit_without_a_word_says_so(server: Speaking, api: Api) -> None:
    error = await server.fail(api.answer(reason="model_context_window_exceeded"))
    assert error.kind == "context_overflow"


# The order of steps, as an agent takes them


@pytest.mark.anyio
async def test_the_steps_of_a_turn_play_one_script_after_another(server: Speaking, api: Api) -> None:
    scripts = [api.answer(calls=[Called("fs_read", '{"path": "a"}')]), api.answer("It says alpha.")]
    conversation: list[dict[str, Any]] = [{"role": "user", "content": json.dumps(scripts)}]
    first = await collect(await stream_chat(server.client, server.endpoint(), ChatRequest(conversation, tools=TOOLS)))
    (call,) = calls_of(first)
    said = {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["raw"]}}
    conversation += [
        {"role": "assistant", "content": None, "tool_calls": [said]},
        {"role": "tool", "tool_call_id": call["id"], "content": "alpha"},
    ]
    second = await collect(await stream_chat(server.client, server.endpoint(), ChatRequest(conversation, tools=TOOLS)))
    assert text_of(second) == "It says alpha."
    assert "alpha" in json.dumps((await server.log())[1]["body"]["messages"])
