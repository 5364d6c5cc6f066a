"""Asking a model over HTTP: which endpoint, what is sent, how the answer streams, and every way it can fail.

The server is a process of its own that plays the script it finds in the message (`fakes/model_server.py`).
"""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import time
from collections.abc import AsyncIterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from fakes.scripted import Script, Server, collect, serving, text_of

from bub.agent.models import faults
from bub.agent.models.chat import LONGEST_PAUSE, Chat, ChatRequest, Pause, stream_chat
from bub.agent.models.client import open_client
from bub.agent.models.endpoint import Endpoint, resolve_endpoint
from bub.errors import ModelError
from bub.pipeline.plan.providers import PROVIDERS

KEY = "sk-very-secret-4711"


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with open_client() as shared:
        yield shared


@pytest.fixture
async def server(client: httpx.AsyncClient, address: str) -> Server:
    return Server(client, address)


def delta(content: str | None = None, **more: Any) -> dict[str, Any]:
    return {"sse": {"choices": [{"index": 0, "delta": {"content": content, **more}, "finish_reason": None}]}}


def finish(reason: str = "stop") -> dict[str, Any]:
    return {"sse": {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}}


USAGE = {"sse": {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}}
DONE = {"sse": "[DONE]"}
ANSWER: Script = [delta("Hello"), delta(" there"), finish(), USAGE, DONE]


# Choosing the endpoint


@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_each_known_provider_is_reached_at_its_own_address(name: str) -> None:
    own = {"api_base": PROVIDERS[name].base_url} if PROVIDERS[name].is_own else {}
    endpoint = resolve_endpoint({"model": f"{name}:some/model:free", "api_key": KEY, **own})
    assert (endpoint.provider, endpoint.model, endpoint.api_key) == (name, "some/model:free", KEY)
    path = "messages" if name == "anthropic" else "chat/completions"
    assert endpoint.url == f"{PROVIDERS[name].base_url}/{path}"
    assert endpoint.host in endpoint.url


def test_settings_of_the_request_are_read_and_other_sections_are_not() -> None:
    endpoint = resolve_endpoint(
        {
            "model": "ollama:llama3:8b",
            "max_tokens": "100",
            "temperature": 0.5,
            "timeout": "2m",
            "retries": 5,
            "telegram": {"token": 1},
        }
    )
    assert (endpoint.model, endpoint.max_tokens, endpoint.temperature) == ("llama3:8b", 100, 0.5)
    assert (endpoint.timeout, endpoint.retries, endpoint.api_key) == (120.0, 5, None)


def test_the_key_of_the_provider_beats_the_general_key() -> None:
    settings = {"model": "groq:m", "api_key": "general", "providers": {"groq": {"api_key": KEY}}}
    assert resolve_endpoint(settings).api_key == KEY


def test_the_general_key_and_address_go_to_no_other_provider() -> None:
    settings = {"model": "groq:m", "api_key": KEY, "api_base": "https://proxy.example/v1"}
    other = resolve_endpoint(settings, model="ollama:m")
    assert other.api_key is None
    assert other.base_url == PROVIDERS["ollama"].base_url
    with pytest.raises(ModelError, match="no API key for openai"):
        resolve_endpoint(settings, model="openai:m")


@pytest.mark.parametrize(
    ("settings", "says", "helps"),
    [
        ({}, "no model is chosen", "type `bub onboard`"),
        ({"model": "gpt-5"}, "does not say which provider", "openrouter:gpt-5"),
        ({"model": "openrouter/free"}, "does not say which provider", "did you mean `openrouter`"),
        ({"model": "opnrouter:free"}, "provider of `model: opnrouter:free` is not known", "did you mean `openrouter`"),
        ({"model": "local:"}, "no plugin answers", "local_model"),
        ({"model": "groq:"}, "names no model", "provider:name"),
        ({"model": "groq:m"}, "no API key for groq", "GROQ_API_KEY"),
        ({"model": "ollama:m", "timeout": "soon"}, "`timeout`", "30s"),
        ({"model": "ollama:m", "retries": "many"}, "`retries`", None),
        ({"model": "x:m", "api_base": "ftp://host/v1"}, "not an http or https URL", "https://"),
        ({"model": "x:m", "api_base": "http://host:port/v1"}, "not an http or https URL", "https://"),
        ({"model": "x:m", "api_base": "http://a..b/v1"}, "an impossible host", "https://"),
        ({"model": "x:m", "api_base": f"http://{'a' * 300}/v1"}, "an impossible host", "https://"),
        ({"model": "x:m", "api_base": f"http://{'a.' * 150}b/v1"}, "an impossible host", "https://"),
        (
            {"model": "x:m", "api_base": "http://\N{LATIN SMALL LETTER U WITH DIAERESIS}n.example../v1"},
            "an impossible host",
            "https://",
        ),
        ({"model": "x:m", "api_base": "http://host/\x01v1"}, "not an http or https URL", "https://"),
        ({"model": "x:m", "api_base": "http://ho\nst/v1"}, "not an http or https URL", "https://"),
        ({"model": "x:m", "api_base": f"https://me:{KEY}@host/v1"}, "user name or a password", "api_key"),
        ({"model": "x:m", "api_base": f"https://host/v1#{KEY}"}, "a `#` part", "https://"),
        ({"model": "x:m", "api_base": f"https://host/v1?key={KEY} {KEY}"}, "not an http or https URL", "https://"),
        ({"model": "azure:m", "api_key": KEY}, "everybody has another address of azure", "RESOURCE.openai.azure.com"),
        ({"model": "azure:m", "api_base": "https://me.openai.azure.com/openai/v1"}, "no API key", "AZURE_OPENAI_API"),
        ({"model": "x:m", "api_base": "http://h", "providers": {"x": {"headers": {f"a {KEY}": "b"}}}}, "a name", "X-"),
        ({"model": "x:m", "api_base": "http://h", "providers": {"x": {"headers": {"Host": KEY}}}}, "a name in", "X-"),
        ({"model": "x:m", "api_base": "http://h", "providers": {"x": {"headers": {"a": f"b\n{KEY}"}}}}, "`a`", "line"),
        ({"model": "groq:m", "api_key": f"{KEY} {KEY}"}, "character in it", "api_key"),
        ({"model": "groq:m", "providers": {"groq": {"api_key": {KEY: KEY}}}}, "api_key", None),
    ],
)
def test_settings_that_choose_no_endpoint_are_explained_without_a_secret(
    settings: dict[str, Any], says: str, helps: str | None
) -> None:
    with pytest.raises(ModelError) as caught:
        resolve_endpoint(settings)
    assert caught.value.kind == "config"
    assert says in str(caught.value)
    assert helps is None or helps in (caught.value.help or "")
    assert KEY not in f"{caught.value!r} {caught.value.help}"


def test_a_server_nobody_knows_is_asked_at_the_address_that_is_given() -> None:
    named = resolve_endpoint({"model": "vllm:m", "providers": {"vllm": {"api_base": "http://box:8000/v1/"}}})
    unnamed = resolve_endpoint({"model": "my-model", "api_base": "http://box:8000/v1/chat/completions"})
    assert (named.provider, named.model, named.url) == ("vllm", "m", "http://box:8000/v1/chat/completions")
    assert (unnamed.provider, unnamed.model, unnamed.url) == ("custom", "my-model", named.url)


def test_a_key_is_not_in_the_repr_of_an_endpoint() -> None:
    assert KEY not in repr(resolve_endpoint({"model": "groq:m", "api_key": KEY}))


# What is sent, and the answer


@pytest.mark.anyio
async def test_an_answer_streams_as_text_usage_and_the_reason_it_ended(server: Server) -> None:
    stream = await server.open(ANSWER)
    events = await collect(stream)
    assert [event.kind for event in events] == ["text", "text", "usage", "final"]
    assert text_of(events) == "Hello there"
    assert events[-1].data == {"finish_reason": "stop"}
    assert stream.state.usage == events[-2].data == {"prompt_tokens": 3, "completion_tokens": 2}


@pytest.mark.anyio
async def test_the_request_carries_the_key_the_messages_and_the_options(server: Server) -> None:
    endpoint = server.endpoint(api_key=KEY, max_tokens=50, temperature=0.2)
    request = ChatRequest.of_prompt("hi", system="Be brief.")
    assert text_of(await collect(await stream_chat(server.client, endpoint, request))) == "You said: hi"
    (asked,) = await server.log()
    assert asked["path"] == "/v1/chat/completions"
    assert asked["headers"]["authorization"] == f"Bearer {KEY}"
    assert asked["body"] == {
        "model": server.model,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 50,
        "temperature": 0.2,
    }


@pytest.mark.anyio
async def test_without_a_key_no_authorization_is_sent(server: Server) -> None:
    await server.ask(ANSWER)
    assert "authorization" not in (await server.log())[0]["headers"]


@pytest.mark.anyio
async def test_a_prompt_that_no_encoding_can_carry_is_mended_before_it_is_sent(server: Server) -> None:
    request = ChatRequest.of_prompt("a\udc80b\ud83d\ude00", system="s")
    events = await collect(await stream_chat(server.client, server.endpoint(), request))
    assert text_of(events) == "You said: a\N{REPLACEMENT CHARACTER}b\N{GRINNING FACE}"


@pytest.mark.anyio
async def test_what_a_model_thinks_is_told_apart_from_what_it_says(server: Server) -> None:
    thoughts = [delta(reasoning_content="Let me "), delta(reasoning="think.")]
    events = await server.ask([*thoughts, *ANSWER])
    assert text_of(events, "reasoning") == "Let me think."
    assert text_of(events) == "Hello there"


@pytest.mark.anyio
async def test_a_plain_completion_is_taken_as_one_text(server: Server) -> None:
    completion = {"choices": [{"message": {"content": "All at once"}, "finish_reason": "stop"}], "usage": {"n": 1}}
    events = await server.ask([{"body": json.dumps(completion)}])
    assert [event.kind for event in events] == ["text", "usage", "final"]
    assert text_of(events) == "All at once"


@pytest.mark.anyio
async def test_parts_comments_unknown_fields_and_tool_calls_are_no_trouble(server: Server) -> None:
    events = await server.ask(
        [
            {"raw": ": waiting\n\nevent: ping\ndata: {}\n\n"},
            delta(None, role="assistant", refusal=None, novelty={"deep": [1]}),
            delta(None, tool_calls=[{"index": 0, "function": {"name": "x", "arguments": "{"}}]),
            {"sse": {"choices": [{"delta": {"content": [{"type": "text", "text": "parts"}, {"type": "image"}]}}]}},
            {"raw": 'data: {"choices":\r\ndata: [{"delta": {"content": " and lines"}}]}\r\n\r\n'},
            finish(),
            DONE,
        ]
    )
    assert text_of(events) == "parts and lines"


@pytest.mark.anyio
async def test_text_with_exotic_line_breaks_is_not_torn(server: Server) -> None:
    body = json.dumps({"choices": [{"delta": {"content": "one\u2028two\x85three"}}]}, ensure_ascii=False)
    assert text_of(await server.ask([{"raw": f"data: {body}\n\n"}, finish(), DONE])) == "one\u2028two\x85three"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("deltas", "whole"),
    [
        (["\ud83d", "\ude00!"], "\N{GRINNING FACE}!"),
        (["a\ud83d", "\ude00"], "a\N{GRINNING FACE}"),
        (["a\ud83d", "b"], "a\N{REPLACEMENT CHARACTER}b"),
        (["\ude00b"], "\N{REPLACEMENT CHARACTER}b"),
        (["end\ud83d"], "end\N{REPLACEMENT CHARACTER}"),
    ],
)
async def test_characters_split_over_deltas_become_whole(server: Server, deltas: list[str], whole: str) -> None:
    # The standard library writes lone surrogates as escapes, as servers do that split characters.
    events = await server.ask([*map(delta, deltas), finish(), DONE])
    assert text_of(events) == whole
    assert all(event.data["delta"].encode() for event in events if event.kind == "text")


@pytest.mark.anyio
async def test_an_answer_may_end_without_its_last_words_once_it_said_how_it_ended(server: Server) -> None:
    for ending in ([finish()], [finish(), {"cut": True}], [DONE], [finish(), DONE, {"hold": True}]):
        with trio.fail_after(5):
            events = await server.ask([delta("Hello"), *ending])
        assert text_of(events) == "Hello"
        assert events[-1].kind == "final"


@pytest.mark.anyio
async def test_one_connection_serves_one_request_after_another(server: Server) -> None:
    for _ in range(3):
        await server.ask(ANSWER)
    assert len({entry["connection"] for entry in await server.log()}) == 1


@pytest.mark.anyio
async def test_plain_http_reads_no_certificates(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssl, "create_default_context", lambda **_: pytest.fail("the certificates were read"))
    async with open_client() as client:
        await Server(client, address).ask(ANSWER)


# Leaving early


@pytest.mark.anyio
async def test_closing_the_stream_frees_the_server_at_once(server: Server) -> None:
    stream = await server.open([{"until_gone": delta("x")["sse"]}])
    async for _ in stream:
        break
    await stream.aclose()
    await stream.aclose()
    assert [entry["ended"] for entry in await server.log(ended=1)] == ["gone"]
    assert [event async for event in stream] == []


@pytest.mark.anyio
async def test_cancelling_a_turn_that_waits_for_a_slow_token_frees_the_server(server: Server) -> None:
    stream = await server.open([delta("slow"), {"hold": True}])
    with trio.move_on_after(0.05) as scope:
        async for _ in stream:
            pass
    await stream.aclose()
    assert scope.cancelled_caught
    assert [entry["ended"] for entry in await server.log(ended=1)] == ["gone"]


@pytest.mark.anyio
async def test_cancelling_before_the_answer_begins_frees_the_server(server: Server) -> None:
    with trio.move_on_after(0.05) as scope:
        await server.ask([{"hold": True}])
    assert scope.cancelled_caught
    assert [entry["ended"] for entry in await server.log(ended=1)] == ["gone"]


# Faults


def error_body(message: str, **more: Any) -> str:
    return json.dumps({"error": {"message": message, **more}})


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("status", "body", "kind", "says", "helps"),
    [
        (401, error_body("bad key"), "refused_key", "refused the API key (401): bad key", "providers.test.api_key"),
        (403, error_body("bad key"), "refused_key", "refused the API key (403): bad key", "providers.test.api_key"),
        (403, error_body("no"), "request", "does not allow this (403): no", "what the key may do"),
        (403, error_body("your country is not supported"), "request", "does not allow this (403)", "countries"),
        (404, error_body("no such model"), "request", "(404): no such model", "model: test:"),
        (400, error_body("bad `top_p`"), "request", "refused the request (400): bad `top_p`", "settings"),
        (422, json.dumps({"detail": [{"msg": "extra"}]}), "request", "(422): extra", "settings"),
        (400, error_body("exceeds the available context size"), "context_overflow", "context size", "shorten"),
        (402, json.dumps({"error": "no credit"}), "request", "wants to be paid (402): no credit", "credit"),
        (429, json.dumps([{"error": {"message": "slow"}}]), "rate_limited", "too many requests (429): slow", "wait"),
        (500, "plain words", "server", "problem of its own (500): plain words", "later"),
        (307, "", "request", "has moved (307)", "api_base"),
    ],
)
async def test_a_refusal_is_one_clear_error(
    server: Server, status: int, body: str, kind: str, says: str, helps: str
) -> None:
    error = await server.fail([{"status": status, "body": body}], api_key=KEY)
    assert error.kind == kind
    assert says in str(error)
    assert helps in (error.help or "")
    assert len(await server.log()) == 1


@pytest.mark.anyio
async def test_a_server_that_wants_a_key_and_got_none_says_so(server: Server) -> None:
    assert "wants an API key (401)" in str(await server.fail([{"status": 401}]))


@pytest.mark.anyio
async def test_what_a_server_says_is_cleaned_and_cut_and_shows_no_key(server: Server) -> None:
    nasty = f"\x1b[31mred\x07\n\u202e {KEY} " + "long " * 200
    error = await server.fail([{"status": 400, "body": error_body(nasty)}], api_key=KEY)
    assert KEY not in f"{error!r} {error.help}"
    assert "[31mred [key] long" in str(error)
    assert str(error).isprintable()
    assert len(str(error)) < faults.LONGEST_QUOTE + 100


@pytest.mark.anyio
async def test_a_key_of_a_letter_or_two_is_not_covered_in_every_word(server: Server) -> None:
    said = error_body("no such option")
    for key in ("o", "no"):
        assert "test (127.0.0.1" in str(error := await server.fail([{"status": 400, "body": said}], api_key=key))
        assert "no such option" in str(error)


@pytest.mark.anyio
@pytest.mark.parametrize("api", ["anthropic", "openai"])
async def test_an_address_without_its_version_is_named(server: Server, api: str) -> None:
    nothing: Script = [{"status": 404, "body": error_body("Not Found")}]
    own = {"api": api, "api_base": server.address}
    error = await server.fail(nothing, api_base=None, providers={"test": own})
    assert f"`{server.address}/v1`" in (error.help or "")
    own = {"api": api, "api_base": f"{server.address}/v1"}
    error = await server.fail(nothing, api_base=None, providers={"test": own})
    assert "/v1" not in (error.help or "")


@pytest.mark.anyio
async def test_a_web_page_is_not_quoted(server: Server) -> None:
    page: Script = [{"status": 502, "body": "<html><h1>Oops", "headers": {"content-type": "text/html"}}]
    assert "html" not in str(await server.fail(page))


@pytest.mark.anyio
@pytest.mark.parametrize("status", [429, 500, 503])
async def test_what_may_pass_is_tried_again(server: Server, status: int) -> None:
    busy: Script = [{"status": status, "headers": {"retry-after": "0"}}]
    assert text_of(await server.ask(busy, busy, ANSWER, retries=2)) == "Hello there"
    assert len(await server.log()) == 3


@pytest.mark.anyio
async def test_retries_are_bounded_and_spaced(server: Server) -> None:
    started = time.monotonic()
    error = await server.fail([{"status": 503, "body": error_body("loading")}], retries=1)
    assert error.kind == "server"
    assert time.monotonic() - started > 0.4
    assert len(await server.log()) == 2


@pytest.mark.anyio
async def test_a_retry_waits_as_long_as_the_server_asks(server: Server) -> None:
    started = time.monotonic()
    await server.ask([{"status": 429, "headers": {"retry-after": "1"}}], ANSWER, retries=1)
    assert 0.9 < time.monotonic() - started < 3


def begin(server: Server, headers: dict[str, str], longest_pause: float = LONGEST_PAUSE) -> Chat:
    """A request that the server always turns away."""
    script: list[Script] = [[{"status": 429, "headers": headers}]]
    asked = ChatRequest.of_prompt(json.dumps(script))
    return Chat(server.client, server.endpoint(retries=5), asked, longest_pause)


@pytest.mark.anyio
async def test_a_pause_of_minutes_is_told_before_it_begins_and_can_be_cancelled(server: Server) -> None:
    chat = begin(server, {"retry-after": "160"})
    pause = await chat.go_on()
    assert isinstance(pause, Pause)
    assert 160 <= pause.seconds <= 160 * 1.1
    assert "got too many requests (429); it asks to wait 160 s" in str(pause.reason)
    with trio.move_on_after(0.05) as scope:
        await chat.go_on()
    assert scope.cancelled_caught
    assert len(await server.log()) == 1


@pytest.mark.anyio
async def test_pauses_are_bounded_in_all(server: Server) -> None:
    chat = begin(server, {"retry-after": "0.2"}, longest_pause=0.3)
    assert isinstance(await chat.go_on(), Pause)
    with pytest.raises(ModelError, match="got too many requests"):
        await chat.go_on()
    assert len(await server.log()) == 2


@pytest.mark.anyio
async def test_a_server_that_wants_a_long_pause_is_not_asked_again(server: Server) -> None:
    error = await server.fail([{"status": 429, "headers": {"retry-after": "3600"}}], retries=2)
    assert "it asks to wait 3600 s" in str(error)
    assert len(await server.log()) == 1


def test_a_pause_can_be_asked_for_in_seconds_or_as_a_date() -> None:
    assert faults.retry_after_seconds("7") == 7
    assert faults.retry_after_seconds(formatdate(time.time() + 60, usegmt=True)) == pytest.approx(60, abs=2)
    assert faults.retry_after_seconds(formatdate(time.time() - 60, usegmt=True)) == 0
    assert faults.retry_after_seconds("soon") is None
    assert faults.retry_after_seconds(None) is None


@pytest.mark.anyio
@pytest.mark.parametrize(
    "broken",
    [
        [finish("stop"), DONE],
        [delta("\n\n"), finish("stop"), DONE],
        [delta(" "), {"cut": True}],
        [{"sse": "not json"}],
        [{"body": "not json"}],
        [{"sse": {"error": {"message": "upstream went away"}}}],
    ],
)
async def test_a_broken_answer_that_nobody_has_seen_is_asked_for_again(server: Server, broken: Script) -> None:
    assert text_of(await server.ask(broken, ANSWER, retries=1)) == "Hello there"
    assert len(await server.log()) == 2


@pytest.mark.anyio
@pytest.mark.parametrize("reason", ["length", "content_filter"])
async def test_an_answer_without_a_word_that_would_be_the_same_again_is_not(server: Server, reason: str) -> None:
    await server.fail([finish(reason), DONE], ANSWER, retries=1)
    assert len(await server.log()) == 1


@pytest.mark.anyio
async def test_a_stream_cut_in_the_middle_keeps_its_text_and_is_not_tried_again(server: Server) -> None:
    stream = await server.open([delta("Hel"), {"cut": True}], ANSWER, retries=2)
    heard = []
    with pytest.raises(ModelError) as caught:
        async for event in stream:
            heard.append(event)
    assert text_of(heard) == "Hel"
    assert caught.value.kind == "cut_stream"
    await stream.aclose()
    assert stream.state.error is caught.value
    assert len(await server.log()) == 1
    assert [event async for event in stream] == []


@pytest.mark.anyio
async def test_a_stream_that_ends_without_saying_how_was_cut(server: Server) -> None:
    assert (await server.fail([delta("Hel")])).kind == "cut_stream"


@pytest.mark.anyio
async def test_a_stream_cut_before_its_first_event_is_tried_again(server: Server) -> None:
    cut: Script = [{"raw": ": wait\n\n"}, {"cut": True}]
    assert text_of(await server.ask(cut, ANSWER, retries=1)) == "Hello there"


@pytest.mark.anyio
async def test_a_kept_connection_that_the_server_closed_is_replaced_at_once(server: Server) -> None:
    await server.ask(ANSWER)
    events = await server.ask([{"cut": True}], ANSWER, retries=0)
    assert text_of(events) == "Hello there"
    connections = [entry["connection"] for entry in await server.log()]
    assert connections[0] == connections[1] != connections[2]


@pytest.mark.anyio
async def test_a_connection_closed_although_it_was_to_be_kept_does_no_harm(server: Server) -> None:
    for _ in range(3):
        assert text_of(await server.ask([*ANSWER, {"close": True}])) == "Hello there"


@pytest.mark.anyio
async def test_a_server_that_always_hangs_up_is_an_error(server: Server) -> None:
    error = await server.fail([{"cut": True}])
    assert error.kind == "server"
    assert "closed the connection without an answer" in str(error)
    assert len(await server.log()) == 2


@pytest.mark.anyio
@pytest.mark.parametrize("begun", [False, True])
async def test_a_server_that_says_nothing_is_not_waited_for_for_ever(server: Server, begun: bool) -> None:
    script: Script = [delta("Hm")] if begun else []
    error = await server.fail([*script, {"hold": True}], timeout="100ms", retries=2)
    assert error.kind == "timeout"
    assert "said nothing for 0.1 s" in str(error)
    assert len(await server.log()) == 1


@pytest.mark.anyio
@pytest.mark.parametrize(
    "script",
    [
        [{"body": "<html>", "headers": {"content-type": "text/html"}}],
        [{"body": "not json"}],
        [{"body": "[]"}],
        [{"body": "", "headers": {"content-type": ""}}],
        [{"sse": "not json"}],
        [{"sse": [1]}],
        [{"sse": {"choices": "none"}}],
        [{"sse": "[" * 100_000}],
    ],
)
async def test_what_is_no_answer_is_not_taken_for_one(server: Server, script: Script) -> None:
    error = await server.fail(script)
    assert error.kind == "bad_answer"
    assert "api_base" in (error.help or "")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "over capacity", "code": 429}, "rate_limited"),
        ({"message": "over capacity", "code": "503"}, "server"),
        ({"message": "over capacity", "code": "overloaded"}, "server"),
        ("over capacity", "server"),
        ({"message": "over capacity", "code": 401}, "refused_key"),
    ],
)
async def test_an_error_inside_a_stream_is_an_error(server: Server, error: Any, kind: str) -> None:
    for script in ([delta("Hel"), {"sse": {"error": error}}], [{"sse": {"error": error}}]):
        failed = await server.fail(script)
        assert failed.kind == kind
        assert "over capacity" in str(failed)
    assert (await server.fail([{"body": json.dumps({"error": error})}])).kind == kind


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("script", "says"),
    [
        ([finish("length"), DONE], "used up its `max_tokens`"),
        ([finish("content_filter"), DONE], "content filter"),
        ([finish("stop"), USAGE, DONE], "without a word"),
        ([DONE], "without a word"),
        ([delta(None, tool_calls=[{"index": 0}]), finish("tool_calls"), DONE], "called a tool"),
        ([{"body": json.dumps({"choices": []})}], "without a word"),
        ([delta(reasoning="hm"), finish("length"), DONE], "used up its `max_tokens`"),
    ],
)
async def test_an_answer_without_a_word_is_never_silent(server: Server, script: Script, says: str) -> None:
    error = await server.fail(script)
    assert error.kind == "bad_answer"
    assert says in str(error)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("base", "says"),
    [
        ("http://127.0.0.1:1/v1", "the connection was refused"),
        ("http://nowhere.invalid/v1", "its name cannot be resolved"),
    ],
)
async def test_a_server_that_cannot_be_reached_is_named(client: httpx.AsyncClient, base: str, says: str) -> None:
    endpoint = resolve_endpoint({"model": "test:m", "api_base": base, "retries": 0})
    with pytest.raises(ModelError, match=says) as caught:
        await stream_chat(client, endpoint, ChatRequest.of_prompt("hi"))
    assert caught.value.kind == "unreachable"
    assert endpoint.host in str(caught.value)


@pytest.mark.anyio
async def test_a_host_that_only_the_connection_finds_impossible_is_explained(client: httpx.AsyncClient) -> None:
    for base in ("http://a..b/v1", "http://\N{SNOWMAN}.example/v1", "http://ho\x01st/v1"):
        endpoint = Endpoint("test", "m", base, retries=2)
        with pytest.raises(ModelError, match="has an address that is no address") as caught:
            await stream_chat(client, endpoint, ChatRequest.of_prompt("hi"))
        assert caught.value.kind == "config"
        assert "providers.test.api_base" in (caught.value.help or "")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("variable", "value", "helps"),
    [
        ("ALL_PROXY", f"socks5://me:{KEY}@127.0.0.1:1080", "http://"),
        ("HTTP_PROXY", f"foo://me:{KEY}@x", "http://"),
        ("https_proxy", "http://[::", "http://"),
        ("NO_PROXY", "[::", "names of hosts"),
    ],
)
async def test_a_proxy_that_cannot_be_used_is_named_by_its_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, helps: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ModelError, match=variable) as caught:
        async with open_client():
            pass
    assert caught.value.kind == "config"
    assert helps in (caught.value.help or "")
    assert KEY not in f"{caught.value!r} {caught.value.help}"


# TLS


@pytest.mark.anyio
@pytest.mark.parametrize("there", [False, True])
async def test_authorities_that_cannot_be_read_are_named_by_their_variable(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    file = tmp_path / "authorities.pem"
    if there:
        file.write_text("no certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    server.address = server.address.replace("http:", "https:")
    with pytest.raises(ModelError, match="SSL_CERT_FILE") as caught:
        await server.ask(ANSWER, retries=2)
    assert caught.value.kind == "config"
    assert str(file) in str(caught.value)


@pytest.mark.anyio
async def test_https_to_a_server_without_tls_is_explained(server: Server) -> None:
    server.address = server.address.replace("http:", "https:")
    with pytest.raises(ModelError, match="does not speak TLS") as caught:
        await server.ask(ANSWER)
    assert caught.value.kind == "unreachable"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs the command openssl to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    request = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    subprocess.run(
        [openssl, *request.split(), "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True
    )
    return certificate, key


@pytest.mark.anyio
async def test_only_a_server_with_a_trusted_certificate_gets_the_key(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(*map(str, certificate)) as address:
        async with open_client() as client:
            server = Server(client, address)
            with pytest.raises(ModelError, match="certificate is not trusted") as caught:
                await server.ask(ANSWER, api_key=KEY)
            assert caught.value.kind == "unreachable"
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        async with open_client() as client:
            server = Server(client, address)
            assert text_of(await server.ask(ANSWER, api_key=KEY)) == "Hello there"
