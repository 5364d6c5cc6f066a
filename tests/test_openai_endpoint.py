"""The official `openai` package asks the profiles of a real gateway: chat, responses, streams, tools, errors."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest
from fakes.openai_house import TOKENS, House, openai_house
from fakes.scripted import OPENAI, Called, Script
from openai import OpenAI

from bub.approval import OPERATOR
from bub.inbox.mailbox import inbox_file
from bub.inbox.sqlite import SqliteInbox

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
FUNCTION = {
    "name": "get_weather",
    "description": "Tell the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
TOOL: Any = {"type": "function", "function": FUNCTION}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, address: str) -> Iterator[House]:
    with openai_house(tmp_path_factory.mktemp("house"), address) as running:
        yield running


@pytest.fixture(scope="module")
def ada(house: House) -> Iterator[OpenAI]:
    with client_of(house, "ada") as client:
        yield client


@pytest.fixture(scope="module")
def tools(house: House) -> Iterator[OpenAI]:
    """A client whose token lets it bring tools."""
    with client_of(house, "tools") as client:
        yield client


def client_of(house: House, name: str) -> OpenAI:
    return OpenAI(base_url=house.url, api_key=TOKENS[name], max_retries=0, timeout=30)


def script(*scripts: Script) -> str:
    """What the user says so that the model does this, one script a request; no other test says the same."""
    unique: Script = [{"raw": f": {uuid.uuid4().hex}\n\n"}]
    return json.dumps([[*unique, *scripts[0]], *scripts[1:]] if scripts and "sse" in scripts[0][0] else list(scripts))


def user(*scripts: Script, text: str = "") -> Any:
    return {"role": "user", "content": text or script(*scripts)}


def weather(city: str, id: str = "call_w") -> Called:  # noqa: A002
    return Called("get_weather", json.dumps({"city": city}), id)


def last_asked(house: House) -> dict[str, Any]:
    return house.asked()[-1]


def say_yes(house: House) -> None:
    """Answer the one question that waits, as `bub inbox approve` does beside the gateway."""
    inbox = SqliteInbox(inbox_file(house.running.folder / "home"), house.running.folder)
    inbox.open()
    try:
        [question] = house.running.until(inbox.questions.open, "a question")
        assert (question.approval.session_id, question.channel) == ("http:ada:harbour", "http")
        assert "a boat" in question.asked
        assert inbox.questions.answer(question.id, True, OPERATOR)
    finally:
        inbox.close()


# Models and who may ask


def test_the_profiles_of_a_token_are_its_models(house: House, ada: OpenAI, tools: OpenAI) -> None:
    assert [model.id for model in ada.models.list()] == ["default", "strict", "broken"]
    assert [model.id for model in tools.models.list()] == ["default", "strict"]
    assert tools.models.retrieve("strict").owned_by == "bub"
    with pytest.raises(openai.NotFoundError) as caught:
        tools.models.retrieve("broken")
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.NotFoundError):
        tools.chat.completions.create(model="broken", messages=[user(text="Hello")])


@pytest.mark.parametrize("key", ["", "token-of-nobody-0123456789"])
def test_without_a_token_that_is_known_nothing_is_answered(house: House, key: str) -> None:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    for path in ("models", "models/default", "chat/completions", "responses"):
        ask = httpx.post if path in ("chat/completions", "responses") else httpx.get
        said = ask(f"{house.url}/{path}", headers=headers)
        assert said.status_code == 401
        assert said.json()["error"]["code"] == "invalid_api_key"
    with (
        OpenAI(base_url=house.url, api_key=key or "none", max_retries=0) as stranger,
        pytest.raises(openai.AuthenticationError),
    ):
        stranger.models.list()


def test_who_asks_too_often_waits(house: House) -> None:
    with client_of(house, "slow") as slow, pytest.raises(openai.RateLimitError) as caught:
        for _ in range(3):
            slow.models.list()
    assert caught.value.code == "rate_limit_exceeded"
    assert int(caught.value.response.headers["retry-after"]) > 0


# Chat


def test_the_messages_of_a_request_are_the_context_below_the_profiles_system_prompt(house: House, ada: OpenAI) -> None:
    said = ada.chat.completions.create(
        model="default",
        messages=[
            {"role": "system", "content": "Speak as a pirate."},
            {"role": "user", "content": "My name is Ada."},
            {"role": "assistant", "content": "Good day."},
            user(OPENAI.answer("You are Ada.", usage=(30, 5))),
        ],
        temperature=0.5,
        max_completion_tokens=77,
    )
    [choice] = said.choices
    assert (choice.message.content, choice.finish_reason) == ("You are Ada.", "stop")
    assert str(said._request_id).startswith("req_")
    assert said.model == "default"
    assert said.usage is not None
    assert (said.usage.prompt_tokens, said.usage.completion_tokens, said.usage.total_tokens) == (30, 5, 35)
    asked = last_asked(house)
    system, first, *_ = asked["messages"]
    assert "pirate" not in system["content"]
    assert first["content"].startswith("[What the program that asks says")
    assert first["content"].endswith("My name is Ada.")
    assert [message["role"] for message in asked["messages"]] == ["system", "user", "assistant", "user"]
    assert asked["temperature"] == 0.5
    assert 77 in (asked.get("max_tokens"), asked.get("max_completion_tokens"))


def test_nothing_is_kept_of_a_request_without_a_session(house: House, ada: OpenAI) -> None:
    word = uuid.uuid4().hex
    ada.chat.completions.create(model="default", messages=[user(text=f"Remember {word}")])
    ada.chat.completions.create(model="default", user="keeper", messages=[user(text=f"Session {word}")])
    kept = [path.read_bytes() for path in house.running.folder.rglob("*") if path.is_file()]
    assert any(f"Session {word}".encode() in text for text in kept)
    assert not any(f"Remember {word}".encode() in text for text in kept)


def test_a_stream_gives_the_text_as_it_comes_and_the_tokens_at_its_end(house: House, ada: OpenAI) -> None:
    slow = [*OPENAI.beginning("One, "), {"pause": 0.2}, *OPENAI.answer("two.", usage=(7, 4))]
    stream = ada.chat.completions.create(
        model="default", messages=[user(slow)], stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
    assert "".join(filter(None, pieces)) == "One, two."
    assert len([piece for piece in pieces if piece]) > 1
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage is not None
    assert (chunks[-1].usage.total_tokens, chunks[-1].choices) == (11, [])
    assert len({chunk.id for chunk in chunks}) == 1


def test_an_answer_ends_at_the_words_of_stop(ada: OpenAI) -> None:
    asked = user(OPENAI.answer("One END two END three"))
    said = ada.chat.completions.create(model="default", messages=[asked], stop=["END"]).choices[0]
    assert (said.message.content, said.finish_reason) == ("One ", "stop")
    stream = ada.chat.completions.create(model="default", messages=[asked], stop="END", stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "One "


def test_the_packages_own_reader_of_streams_puts_an_answer_together(ada: OpenAI) -> None:
    with ada.chat.completions.stream(model="default", messages=[user(OPENAI.answer("All of it."))]) as stream:
        kinds = {event.type for event in stream}
        whole = stream.get_final_completion()
    assert whole.choices[0].message.content == "All of it."
    assert {"chunk", "content.delta", "content.done"} <= kinds


def test_the_asynchronous_client_has_the_same_answers(house: House) -> None:
    async def ask() -> list[str | None]:
        async with openai.AsyncOpenAI(base_url=house.url, api_key=TOKENS["ada"], max_retries=0) as client:
            said = await client.chat.completions.create(model="default", messages=[user(OPENAI.answer("Whole."))])
            stream = await client.chat.completions.create(
                model="default", messages=[user(OPENAI.answer("In pieces."))], stream=True
            )
            pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
            response = await client.responses.create(model="default", input=script(OPENAI.answer("Response.")))
            return [said.choices[0].message.content, "".join(pieces), response.output_text]

    assert asyncio.run(ask()) == ["Whole.", "In pieces.", "Response."]


def test_pictures_go_to_the_model_and_no_address_is_fetched(house: House, ada: OpenAI) -> None:
    def ask(url: str) -> None:
        text = {"type": "text", "text": script(OPENAI.answer("A dot."))}
        parts: Any = [text, {"type": "image_url", "image_url": {"url": url}}]
        ada.chat.completions.create(model="default", messages=[{"role": "user", "content": parts}])

    ask(f"data:image/png;base64,{PIXEL}")
    assert PIXEL in json.dumps(last_asked(house)["messages"][-1])
    for url in ("http://169.254.169.254/latest", "file:///etc/passwd", "data:image/png;base64,%%%"):
        with pytest.raises(openai.BadRequestError) as caught:
            ask(url)
        assert caught.value.param == "messages[0].content[1].image_url.url"


# Sessions


@pytest.mark.parametrize("by_header", [True, False], ids=["header", "user"])
def test_in_a_session_only_the_last_message_of_the_user_counts(house: House, ada: OpenAI, by_header: bool) -> None:
    name = f"garden.{uuid.uuid4().hex[:8]}"
    named: Any = {"extra_headers": {"X-Bub-Session": name}} if by_header else {"user": name}
    first = user(OPENAI.answer("Noted."))
    assert (
        ada.chat.completions.create(model="default", messages=[first], **named).choices[0].message.content == "Noted."
    )
    stranger: Any = {"role": "assistant", "content": "I never said this."}
    stream = ada.chat.completions.create(
        model="default",
        stream=True,
        messages=[{"role": "system", "content": "Neither this."}, stranger, user(OPENAI.answer("I remember."))],
        **named,
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "I remember."
    told = json.dumps(last_asked(house)["messages"])
    assert "Noted." in told
    assert "never said" not in told
    assert "Neither" not in told


@pytest.mark.parametrize("name", ["telegram:1", "../up", "a b", "x" * 65, "temp/x", "http:tools:one"])
def test_no_session_can_be_named_but_those_below_the_token(ada: OpenAI, name: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ada.chat.completions.create(model="default", user=name, messages=[user(text="Hello")])
    assert caught.value.param == "user"


def test_sessions_of_two_tokens_are_two_sessions(house: House, ada: OpenAI, tools: OpenAI) -> None:
    word = uuid.uuid4().hex
    ada.chat.completions.create(model="default", user="shared", messages=[user(text=f"Ada says {word}")])
    tools.chat.completions.create(model="default", user="shared", messages=[user(OPENAI.answer("Hello."))])
    assert word not in json.dumps(last_asked(house))


# Tools of the client


def test_calls_of_the_clients_tools_go_back_to_it_and_their_results_come_with_the_next_request(
    house: House, tools: OpenAI
) -> None:
    both = OPENAI.answer("I look.", calls=[weather("Oslo", "w1"), weather("Rome", "w2")])
    messages: list[Any] = [user(both, OPENAI.answer("Rain and sun."))]
    said = tools.chat.completions.create(model="default", messages=messages, tools=[TOOL]).choices[0]
    assert (said.finish_reason, said.message.content) == ("tool_calls", "I look.")
    calls = said.message.tool_calls or []
    assert [(call.id, call.function.arguments) for call in calls if call.type == "function"] == [
        ("w1", '{"city":"Oslo"}'),
        ("w2", '{"city":"Rome"}'),
    ]
    messages += [said.message, *({"role": "tool", "tool_call_id": f"w{n}", "content": f"sky {n}"} for n in (1, 2))]
    end = tools.chat.completions.create(model="default", messages=messages, tools=[TOOL]).choices[0]
    assert (end.finish_reason, end.message.content) == ("stop", "Rain and sun.")
    results = [message["content"] for message in last_asked(house)["messages"] if message["role"] == "tool"]
    assert ["sky 1" in results[0], "sky 2" in results[1]] == [True, True]


def test_a_stream_has_the_calls_too(tools: OpenAI) -> None:
    with tools.chat.completions.stream(
        model="default", messages=[user(OPENAI.answer(calls=[weather("Oslo")]))], tools=[TOOL]
    ) as stream:
        for _ in stream:
            pass
        [choice] = stream.get_final_completion().choices
    [call] = choice.message.tool_calls or []
    assert (choice.finish_reason, call.function.name) == ("tool_calls", "get_weather")
    assert json.loads(call.function.arguments) == {"city": "Oslo"}


def test_in_a_session_the_results_alone_are_enough(house: House, tools: OpenAI) -> None:
    name = uuid.uuid4().hex
    asked = user(OPENAI.answer(calls=[weather("Oslo", "w1")]), OPENAI.answer("It rains."))
    first = tools.chat.completions.create(model="default", user=name, messages=[asked], tools=[TOOL]).choices[0]
    assert first.finish_reason == "tool_calls"
    result: Any = {"role": "tool", "tool_call_id": "w1", "content": "rain"}
    end = tools.chat.completions.create(model="default", user=name, messages=[result], tools=[TOOL]).choices[0]
    assert end.message.content == "It rains."
    assert "rain" in json.dumps(last_asked(house)["messages"][-1])
    with pytest.raises(openai.BadRequestError, match="no call `w1` waits for a result here"):
        tools.chat.completions.create(model="default", user=name, messages=[result], tools=[TOOL])


def test_tools_of_a_client_need_a_token_that_says_so_and_names_of_their_own(ada: OpenAI, tools: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ada.chat.completions.create(model="default", messages=[user(text="Hello")], tools=[TOOL])
    assert caught.value.code == "tools_not_allowed"
    own: Any = {"type": "function", "function": {"name": "math_add"}}
    for more in ({}, {"stream": True}):
        with pytest.raises(openai.BadRequestError, match=r"the profile has `math\.add`"):
            tools.chat.completions.create(model="default", messages=[user(text="Hello")], tools=[own], **more)


def test_gates_have_their_say_and_the_model_hears_it_not_the_client(house: House, tools: OpenAI) -> None:
    asked = user(OPENAI.answer(calls=[weather("Atlantis")]), OPENAI.answer("Then not."))
    said = tools.chat.completions.create(model="default", messages=[asked], tools=[TOOL]).choices[0]
    assert (said.message.content, said.message.tool_calls) == ("Then not.", None)
    assert "not that city" in json.dumps(last_asked(house)["messages"])


def test_tools_of_the_profile_run_and_are_not_shown(ada: OpenAI) -> None:
    adds = Called("math_add", '{"a": 1, "b": 2}', "a1")
    asked = user(OPENAI.answer("I add.", calls=[adds]), OPENAI.answer("It is 3."))
    stream = list(ada.chat.completions.create(model="default", messages=[asked], stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "I add.\n\nIt is 3."
    assert not any(chunk.choices[0].delta.tool_calls for chunk in stream)


# What needs a person


def test_in_a_session_what_needs_a_yes_waits_for_the_operator(house: House, ada: OpenAI) -> None:
    buys = Called("shop_buy", '{"item": "a boat"}', "b1")
    asked, before = user(OPENAI.answer(calls=[buys]), OPENAI.answer("We have a boat.")), len(house.asked())
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(
            lambda: ada.chat.completions.create(model="strict", user="harbour", messages=[asked]).choices[0]
        )
        house.ended(before + 1)
        say_yes(house)
        assert answer.result(30).message.content == "We have a boat."
    assert "bought a boat" in json.dumps(last_asked(house)["messages"])


def test_what_needs_a_yes_is_denied_without_a_session_a_comma_command_too(house: House, ada: OpenAI) -> None:
    buys = Called("shop_buy", '{"item": "a boat"}', "b1")
    asked = user(OPENAI.answer(calls=[buys]), OPENAI.answer("I may not."))
    ada.chat.completions.create(model="strict", messages=[asked])
    assert "nobody is asked for a request without a session" in json.dumps(last_asked(house)["messages"])
    command = ada.chat.completions.create(model="strict", messages=[user(text=",shop.buy boat")]).choices[0]
    assert str(command.message.content).startswith("error: `shop.buy` needs a person's yes")


# Refusals


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"n": 2}, "n"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"logprobs": True}, "logprobs"),
        ({"stop": [""]}, "stop"),
        ({"temperature": 3}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"reasoning_effort": "enormous"}, "reasoning_effort"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"functions": [FUNCTION]}, "functions"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": "a"}] * 2001}, "messages"),
        ({"messages": "Hello"}, "messages"),
        ({"messages": [{"role": "wizard", "content": "Hello"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": " "}]}, "messages[0]"),
        ({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}, "messages"),
        ({"messages": [{"role": "tool", "tool_call_id": "x", "content": "b"}]}, "messages[0].tool_call_id"),
        ({"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}]}, None),
    ],
)
def test_what_cannot_be_honoured_is_refused(ada: OpenAI, more: dict[str, Any], param: str | None) -> None:
    body = {"model": "default", "messages": [user(text="Hello")], **more}
    with pytest.raises(openai.BadRequestError) as caught:
        ada.post("/chat/completions", cast_to=object, body=body)
    assert caught.value.type == "invalid_request_error"
    if param is not None:
        assert caught.value.param == param


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"background": True}, "background"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0]"),
    ],
)
def test_what_responses_cannot_honour_is_refused(ada: OpenAI, more: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ada.post("/responses", cast_to=object, body={"model": "default", "input": "Hello", **more})
    assert caught.value.param == param
    if param in ("previous_response_id", "conversation"):
        assert "X-Bub-Session" in str(caught.value)


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{", 400), (b"[]", 400), (b'{"a":' * 5000 + b"1" + b"}" * 5000, 400), (b" " * 2_000_000, 413)],
    ids=["no JSON", "no object", "nested", "large"],
)
def test_bodies_that_are_broken_deep_or_large_are_refused_in_openais_shape(
    house: House, body: bytes, status: int
) -> None:
    headers = {"authorization": f"Bearer {TOKENS['ada']}"}
    said = httpx.post(f"{house.url}/chat/completions", headers=headers, content=body)
    assert said.status_code == status
    assert set(said.json()["error"]) == {"message", "type", "param", "code"}


# Denials and failures


def test_a_denied_turn_says_why(ada: OpenAI) -> None:
    said = ada.chat.completions.create(model="default", messages=[user(text="a forbidden word")]).choices[0]
    assert (said.finish_reason, said.message.content) == ("content_filter", "that word is not allowed here")
    response = ada.responses.create(model="default", input="a forbidden word", user="denied")
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "content_filter"
    assert response.output_text == "that word is not allowed here"


def test_a_failed_turn_has_an_id_and_tells_nothing_of_this_machine(house: House, ada: OpenAI) -> None:
    with pytest.raises(openai.InternalServerError) as caught:
        ada.chat.completions.create(model="broken", messages=[user(text="Hello")])
    assert (caught.value.status_code, caught.value.code) == (502, "model_unreachable")
    assert "127.0.0.1" not in str(caught.value)
    error_id = str(caught.value).rpartition("(error ")[2][:8]
    assert f"id={error_id}" in house.running.wait_for_log("turn.failed")
    name, patient = uuid.uuid4().hex, ada.with_options(max_retries=2)
    with pytest.raises(openai.InternalServerError, match="error "):
        patient.chat.completions.create(model="broken", user=name, messages=[user(text="Hello")])
    house.running.wait_for_log(f"turn.ended session=http:ada:{name}")
    assert house.running.log.count(f"turn.ended session=http:ada:{name}") == 1  # what is kept is not sent again


def test_a_message_that_a_plugin_drops_is_not_waited_for_for_ever(ada: OpenAI) -> None:
    with pytest.raises(openai.InternalServerError) as caught:
        ada.chat.completions.create(model="default", user="dropped", messages=[user(text="drop me")])
    assert caught.value.code == "not_answered"


def test_a_stream_that_fails_in_the_middle_ends_with_an_error(ada: OpenAI) -> None:
    cut = [*OPENAI.beginning("Half of "), {"pause": 0.1}, {"cut": True}]
    for named in ({}, {"user": uuid.uuid4().hex}):
        pieces = []
        with pytest.raises(openai.APIError):
            for chunk in ada.chat.completions.create(model="default", messages=[user(cut)], stream=True, **named):
                pieces.append(chunk.choices[0].delta.content or "")
        assert "".join(pieces) == "Half of "


def test_who_hangs_up_ends_a_turn_without_a_session_and_not_one_with(house: House, ada: OpenAI) -> None:
    waiting = [*OPENAI.beginning("Once "), {"hold": True}]
    before = len(house.asked())
    stream = ada.chat.completions.create(model="default", messages=[user(waiting)], stream=True)
    next(iter(stream))
    stream.close()
    assert house.ended(before + 1)[-1] == "gone"
    name = uuid.uuid4().hex
    slow = [*OPENAI.beginning("Once "), {"pause": 0.5}, *OPENAI.answer("upon a time.")]
    stream = ada.chat.completions.create(model="default", messages=[user(slow)], stream=True, user=name)
    next(iter(stream))
    stream.close()
    assert house.ended(before + 2)[-1] == "done"
    house.running.wait_for_log(f"session=http:ada:{name}")
    assert "delivery" not in house.running.log
    ada.chat.completions.create(model="default", user=name, messages=[user(OPENAI.answer("Yes."))])
    assert "Once upon a time." in json.dumps(last_asked(house)["messages"])


# Responses


def test_a_response_is_whole_and_says_that_nothing_is_stored(house: House, ada: OpenAI) -> None:
    said = ada.responses.create(
        model="default",
        instructions="Speak as a pirate.",
        input=[
            {"role": "user", "content": "My name is Ada."},
            {"role": "assistant", "content": "Good day."},
            {"role": "user", "content": [{"type": "input_text", "text": script(OPENAI.answer("Aye.", usage=(9, 3)))}]},
        ],
        max_output_tokens=50,
        store=True,
    )
    assert (said.status, said.output_text, said.to_dict()["store"]) == ("completed", "Aye.", False)
    assert said.usage is not None
    assert (said.usage.input_tokens, said.usage.output_tokens, said.usage.total_tokens) == (9, 3, 12)
    asked = last_asked(house)
    assert "pirate" not in asked["messages"][0]["content"]
    assert "pirate" in asked["messages"][1]["content"]


def test_a_stream_of_a_response_has_each_event_in_its_order(ada: OpenAI) -> None:
    slow = [*OPENAI.beginning("One, "), {"pause": 0.1}, *OPENAI.answer("two.")]
    events = list(ada.responses.create(model="default", input=script(slow), stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = list(dict.fromkeys(event.type for event in events))
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    with ada.responses.stream(model="default", input=script(OPENAI.answer("All of it."))) as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_text == "All of it."


def test_functions_of_a_response_go_to_the_client_and_back(house: House, tools: OpenAI) -> None:
    function: Any = {"type": "function", "strict": False, **FUNCTION}
    given: list[Any] = [user(OPENAI.answer("I look.", calls=[weather("Oslo", "w1")]), OPENAI.answer("It rains."))]
    said = tools.responses.create(model="default", input=given, tools=[function])
    message, call = said.output
    assert (message.type, call.type) == ("message", "function_call")
    assert call.type == "function_call"
    assert (call.call_id, json.loads(call.arguments)) == ("w1", {"city": "Oslo"})
    given += [*said.output, {"type": "function_call_output", "call_id": "w1", "output": "rain"}]
    with tools.responses.stream(model="default", input=given, tools=[function]) as stream:
        kinds = {event.type for event in stream}
        assert stream.get_final_response().output_text == "It rains."
    assert "response.output_text.delta" in kinds
    roles = [message["role"] for message in last_asked(house)["messages"]]
    assert roles == ["system", "user", "assistant", "tool"]


def test_a_stream_of_a_response_tells_a_call_in_events(tools: OpenAI) -> None:
    function: Any = {"type": "function", "strict": False, **FUNCTION}
    asked = script(OPENAI.answer(calls=[weather("Oslo")]))
    with tools.responses.stream(model="default", input=asked, tools=[function]) as stream:
        kinds = {event.type for event in stream}
        [call] = stream.get_final_response().output
    assert call.type == "function_call"
    assert "response.function_call_arguments.done" in kinds


def test_a_response_that_fails_in_the_middle_says_so(ada: OpenAI) -> None:
    cut = [*OPENAI.beginning("Half of "), {"pause": 0.1}, {"cut": True}]
    events = list(ada.responses.create(model="default", input=script(cut), stream=True))
    assert [event.type for event in events[-2:]] == ["error", "response.failed"]


# A file that is loaded anew


def test_a_reload_gives_a_token_another_profile(house: House, ada: OpenAI) -> None:
    file = house.running.folder / "pipelines.yaml"
    before = file.read_text()
    more = before.replace("[default, strict, broken]", "[default, added]")
    file.write_text(more.replace("profiles:\n  default:", "profiles:\n  added: {plugins: [http, guard]}\n  default:"))
    house.running.send(signal.SIGHUP)
    house.running.until(lambda: "added" in [model.id for model in ada.models.list()], "the other profile")
    for named in ({}, {"user": "added"}):
        said = ada.chat.completions.create(model="added", messages=[user(OPENAI.answer("New here."))], **named)
        assert said.choices[0].message.content == "New here."
    with pytest.raises(openai.NotFoundError):
        ada.chat.completions.create(model="strict", messages=[user(text="Hello")])
