"""How an answer is streamed to a client of OpenAI's API: in memory, with a clock that jumps, and for any answer."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response

from bub.agent.costs.budget import BudgetError
from bub.channels import ClientRequest
from bub.errors import ModelError
from bub_plugins.http.clients import Client
from bub_plugins.http.openai.answering import ALIVE_EVERY, BEGIN_AFTER, Answering, Writer
from bub_plugins.http.openai.asked import Asked
from bub_plugins.http.openai.chat import ChatWriter
from bub_plugins.http.openai.conversation import Prompt
from bub_plugins.http.openai.errors import ApiError, explain_failure
from bub_plugins.http.openai.outcome import Call, Outcome
from bub_plugins.http.openai.responses import ResponseWriter
from bub_plugins.http.openai.sse import ALIVE, DONE
from bub_plugins.http.openai.stopping import Stopping
from bub_plugins.http.openai.turns import MOST_TURNS, Room

ASKED = Asked("writer", Prompt("Hello"), ClientRequest(is_kept=False), stream=True, include_usage=True)
Tell = Callable[[str], None]


async def answer(
    run: Callable[[Tell], Awaitable[Outcome]], writer: Writer, *, hangs_up: float = float("inf")
) -> tuple[int, str]:
    """The status and the body of a stream, for a client that hangs up after some seconds."""
    sent: list[Mapping[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        await trio.sleep(hangs_up)
        return {"type": "http.disconnect"}

    await Answering(run, writer, "req_1", streams=True)({"type": "http"}, receive, send)
    return sent[0]["status"] if sent else 0, b"".join(one.get("body", b"") for one in sent[1:]).decode()


def data_in(body: str) -> list[dict[str, Any]]:
    """The data of the events of a stream."""
    lines = [line.removeprefix("data: ") for line in body.splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


@pytest.mark.virtual_time
@pytest.mark.anyio
async def test_a_stream_begins_by_itself_and_stays_alive_while_nothing_comes() -> None:
    async def run(tell: Tell) -> Outcome:
        await trio.sleep(BEGIN_AFTER + 2.5 * ALIVE_EVERY)
        tell("Late.")
        return Outcome("Late.")

    status, body = await answer(run, ChatWriter(ASKED))
    assert status == 200
    assert body.count(ALIVE) == 2
    assert body.endswith(DONE)
    assert body.index(ALIVE) < body.index("Late.")


@pytest.mark.virtual_time
@pytest.mark.anyio
@pytest.mark.parametrize("waits", [0, BEGIN_AFTER + 1], ids=["at once", "late"])
async def test_a_failure_has_a_status_of_its_own_until_the_stream_has_begun(waits: float) -> None:
    async def run(tell: Tell) -> Outcome:
        await trio.sleep(waits)
        raise ApiError(429, "Too much.", code="rate_limit_exceeded")

    status, body = await answer(run, ChatWriter(ASKED))
    assert status == (200 if waits else 429)
    assert data_in(f"data: {body}" if not waits else body)[-1]["error"]["code"] == "rate_limit_exceeded"


@pytest.mark.virtual_time
@pytest.mark.anyio
async def test_who_hangs_up_cancels_what_is_made() -> None:
    ended = []

    async def run(tell: Tell) -> Outcome:
        tell("Once ")
        try:
            await trio.sleep_forever()
        finally:
            ended.append(trio.current_time())
        return Outcome()

    begun = trio.current_time()
    _, body = await answer(run, ChatWriter(ASKED), hangs_up=3.0)
    assert ended == [begun + 3.0]
    assert DONE not in body


@pytest.mark.virtual_time
@pytest.mark.anyio
async def test_what_a_check_makes_of_an_answer_is_sent_as_far_as_it_goes_on_from_what_was_shown() -> None:
    async def ended(text: str, outcome: Outcome) -> str:
        async def run(tell: Tell) -> Outcome:
            tell(text)
            await trio.sleep(1)
            return outcome

        _, body = await answer(run, ChatWriter(ASKED))
        chunks = [ChatCompletionChunk.model_validate(one) for one in data_in(body)]
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)

    assert await ended("", Outcome("Whole.")) == "Whole."
    assert await ended("One, ", Outcome("One, two.")) == "One, two."
    assert await ended("One, ", Outcome("Another.")) == "One, "
    assert await ended("One, ", Outcome("Not allowed.", reason="content_filter")) == "One, \n\nNot allowed."
    assert await ended("error: ", Outcome("error: no such tool")) == "error: no such tool"


def test_a_client_has_so_many_requests_under_way_and_others_have_theirs() -> None:
    room, ada = Room(), Client("ada", (), client_tools=False)
    with ExitStack() as under_way:
        for _ in range(MOST_TURNS):
            under_way.enter_context(room.taken(ada))
        with pytest.raises(ApiError) as caught, room.taken(ada):
            pass
        assert (caught.value.status, caught.value.code) == (429, "rate_limit_exceeded")
        with room.taken(Client("bob", (), client_tools=False)):
            pass
    with room.taken(ada):
        pass


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ModelError("/home/ada", kind="rate_limited", provider="x"), 429, "rate_limit_exceeded"),
        (ModelError("/home/ada", kind="refused_key", provider="x"), 500, "internal_error"),
        (ModelError("/home/ada", kind="timeout", provider="x"), 504, "model_timeout"),
        (ModelError("/home/ada", kind="context_overflow", provider="x"), 400, "context_length_exceeded"),
        (BudgetError("tokens_per_day", 7), 429, "insufficient_quota"),
        (KeyError("/home/ada"), 500, "internal_error"),
    ],
)
def test_a_failure_is_told_without_what_is_this_machines_own(error: Exception, status: int, code: str) -> None:
    told = explain_failure(error, "4711")
    assert (told.status, told.code) == (status, code)
    assert "/home/ada" not in str(told)
    assert "(error 4711)" in str(told)


@given(st.text("ab", max_size=30), st.lists(st.text("ab", min_size=1, max_size=3), max_size=4), st.integers(1, 5))
@settings(max_examples=100, deadline=None)
def test_what_is_shown_ends_before_the_first_of_the_words(text: str, stops: list[str], size: int) -> None:
    shown: list[str] = []
    stopping = Stopping(stops, shown.append)
    for start in range(0, len(text), size):
        stopping.take(text[start : start + size])
    whole = stopping.cut(Outcome(text)).text
    assert whole.startswith("".join(shown))
    assert not any(stop in whole for stop in stops)
    assert text.startswith(whole)
    assert whole == text or any(text[len(whole) :].startswith(stop) for stop in stops)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
calls = st.lists(
    st.builds(
        Call,
        st.uuids().map(str),
        st.from_regex(r"[a-z_]{1,20}", fullmatch=True),
        st.dictionaries(texts, texts, max_size=3).map(json.dumps),
    ),
    max_size=3,
    unique_by=lambda call: call.id,
)
reasons = st.sampled_from(["stop", "length", "content_filter"])


@given(st.lists(texts.filter(bool), max_size=6), texts, calls, reasons)
@settings(max_examples=25, deadline=None)
def test_any_answer_comes_whole_out_of_its_chunks(pieces: list[str], rest: str, made: list[Call], reason: str) -> None:
    outcome = Outcome("".join(pieces) + rest, made, "tool_calls" if made else reason, 3, 2, 1)
    writer = ChatWriter(ASKED)
    body = writer.begin() + "".join(map(writer.text, pieces)) + writer.end(outcome, rest)
    chunks = [ChatCompletionChunk.model_validate(one) for one in data_in(body)]
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert "".join(choice.delta.content or "" for choice in choices) == outcome.text
    told = [call for choice in choices for call in choice.delta.tool_calls or []]
    assert [call.index for call in told] == list(range(len(made)))
    functions = [(call.id, call.function) for call in told]
    assert [(key, one.name, one.arguments) for key, one in functions if one] == [
        (call.id, call.name, call.arguments) for call in made
    ]
    assert [choice.finish_reason for choice in choices][-1] == outcome.reason
    usage = chunks[-1].usage
    assert usage is not None
    assert usage.total_tokens == 5
    whole = ChatCompletion.model_validate(writer.whole(outcome))
    assert (whole.choices[0].message.content or "") == outcome.text


@given(st.lists(texts.filter(bool), max_size=6), texts, calls, reasons)
@settings(max_examples=25, deadline=None)
def test_any_answer_comes_whole_out_of_the_events_of_a_response(
    pieces: list[str], rest: str, made: list[Call], reason: str
) -> None:
    outcome = Outcome("".join(pieces) + rest, made, "tool_calls" if made else reason, 3, 2, 1)
    writer = ResponseWriter(ASKED)
    events = data_in(writer.begin() + "".join(map(writer.text, pieces)) + writer.end(outcome, rest))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert "".join(deltas) == outcome.text
    begun, done = (
        [event for event in events if event["type"] == f"response.output_item.{at}"] for at in ("added", "done")
    )
    assert [event["output_index"] for event in begun] == list(range(len(begun)))
    response = Response.model_validate(events[-1]["response"])
    assert [event["item"] for event in done] == events[-1]["response"]["output"]
    assert response.output_text == outcome.text
    named = [(item.call_id, item.name, item.arguments) for item in response.output if item.type == "function_call"]
    assert named == [(call.id, call.name, call.arguments) for call in made]
    assert response.status == ("completed" if outcome.reason in ("stop", "tool_calls") else "incomplete")
