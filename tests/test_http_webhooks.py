"""Webhooks: what a request becomes, how it is answered, and that nothing is lost or answered twice."""

from __future__ import annotations

import json
import ssl
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import trio
import trio.lowlevel
import trio.testing
from fakes.certificates import make_certificate
from fakes.redis_server import RedisServer
from fakes.toys import Toy, Workshop
from fakes.web_channel import (
    CLIENTS,
    SECRET,
    SETTINGS,
    TOKEN,
    WEBHOOKS,
    Door,
    from_github,
    pipeline_of,
    served,
    signed,
)

from bub.base.installing.extras import install_command
from bub.base.redis.address import StoreAddress
from bub.channels import ChannelManager, ChannelMessage
from bub.channels.http import HttpChannel, Request, Response, check_signature
from bub.envelope import content_of
from bub.errors import BubError
from bub.inbox.mailbox import Mailbox
from bub.inbox.shared.redis.inbox import RedisInbox
from bub.inbox.shared.store import Worker
from bub.inbox.sqlite import SqliteInbox
from bub.inbox.store import Received
from bub.streaming import AsyncStreamEvents, StreamEvent
from bub_plugins.http import HttpApi
from bub_plugins.http.asking import Askers
from bub_plugins.http.hooks.seen import Seen

pytestmark = pytest.mark.anyio

ISSUE = json.dumps({"action": "opened", "issue": {"title": "Hm"}, "repository": {"full_name": "a/b"}}).encode()


def texts(came: httpx.Response) -> list[str]:
    assert came.status_code == 200, came.text
    return [reply["content"] for reply in came.json()["replies"]]


# What a request becomes


async def test_a_signed_request_is_a_message_and_its_answer_comes_back(workshop: Workshop) -> None:
    body = b'{"message": {"text": "disk full"}}'
    async with served(workshop) as door:
        came = await door.post("/hooks/alarm", content=body, headers=signed(body))
    assert texts(came) == ["default http:hook.alarm:main disk full"]


async def test_a_client_proves_who_it_is_with_its_token(workshop: Workshop) -> None:
    async with served(workshop) as door:
        assert texts(await door.ask("hello")) == ["default http:hook.open:main hello"]


async def test_a_delivery_of_github_has_a_session_a_profile_and_its_event(workshop: Workshop) -> None:
    seen: list[ChannelMessage] = []

    def build_prompt(message: ChannelMessage) -> str:
        seen.append(message)
        return message.content

    async with served(workshop, build_prompt=build_prompt) as door:
        came = await door.post("/hooks/github", content=ISSUE, headers=from_github(ISSUE))
        [text] = texts(came)
        ping = await door.post("/hooks/github", content=ISSUE, headers=from_github(ISSUE, event="ping", delivery="9"))
        other = await door.post("/hooks/github", content=ISSUE, headers=from_github(ISSUE, event="fork", delivery="8"))
    assert text.startswith("quiet http:hook.github:a-b~")
    assert text.endswith(" opened: Hm")
    assert (ping.status_code, other.status_code, len(seen)) == (204, 204, 1)
    assert dict(seen[0].context) == {"webhook": "github", "event": "issues", "delivery": "1-2-3"}


async def test_a_text_is_made_of_fields(workshop: Workshop) -> None:
    cases = [
        ("{body}", b"plain words", "plain words"),
        ("{a.b}: {n}", b'{"a": {"b": "x"}, "n": 3}', "x: 3"),
        ("{list.1}", b'{"list": ["x", "y"]}', "y"),
        ("{a}", b'{"a": {"deep": [true, 1]}}', '{"deep":[true,1]}'),
        ("{ not a field } {{a}}", b'{"a": "{b}", "b": "no"}', "{ not a field } {{b}}"),
    ]
    hooks = {f"t{n}": {"clients": ["ada"], "text": one, "answer_within": "10s"} for n, (one, _, _) in enumerate(cases)}
    async with served(workshop, {**SETTINGS, "webhooks": hooks}, run_model=lambda prompt: prompt) as door:
        for number, (_, body, text) in enumerate(cases):
            came = await door.post(f"/hooks/t{number}", content=body, headers={"authorization": f"Bearer {TOKEN}"})
            assert texts(came) == [text]


async def test_a_body_without_the_fields_is_refused(workshop: Workshop) -> None:
    async with served(workshop, run_model=lambda: pytest.fail("it was asked")) as door:
        for body in (b"{", b"[]", b"{}", b'{"message": 1}', b'{"message": {"text": null}}', b"[" * 100_000, b"\xff"):
            came = await door.post("/hooks/open", content=body, headers={"authorization": f"Bearer {TOKEN}"})
            assert came.status_code == 400, body[:20]
            assert came.json()["error"]


async def test_the_trace_of_who_asks_goes_on(workshop: Workshop) -> None:
    seen: list[str] = []

    def build_prompt(message: ChannelMessage) -> str:
        seen.append(message.trace)
        return message.content

    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with served(workshop, build_prompt=build_prompt) as door:
        await door.ask("a", headers={"traceparent": parent, "tracestate": "vendor=1"})
        await door.ask("b", headers={"traceparent": "00-evil"})
    assert seen == [f"{parent} vendor=1", ""]


# How it is answered


async def test_what_is_not_answered_in_time_is_accepted_and_called_back_signed(workshop: Workshop) -> None:
    go = trio.Event()

    async def run_model(prompt: str) -> str:
        await go.wait()
        return f"done {prompt}"

    async with a_listener() as listener:
        callback = {"url": f"http://{listener.address}/replies", "secret": SECRET}
        hook = {**WEBHOOKS["open"], "answer_within": "50ms", "callback": callback}
        async with served(workshop, {**SETTINGS, "webhooks": {"open": hook}}, run_model=run_model) as door:
            came = await door.ask("this")
            go.set()
            await door.manager.settled()
    assert came.status_code == 202
    [(said, _)] = listener.came
    assert said == {
        "message_id": came.json()["message_id"],
        "webhook": "open",
        "kind": "normal",
        "content": "done this",
    }


async def test_a_call_back_is_tried_again_until_it_is_taken(workshop: Workshop) -> None:
    async with a_listener(503, 429) as listener:
        callback = {"url": f"http://{listener.address}/replies", "secret": SECRET}
        hook = {**WEBHOOKS["open"], "answer_within": "0s", "callback": callback}
        async with served(workshop, {**SETTINGS, "webhooks": {"open": hook}}, run_model=lambda: "hi") as door:
            assert (await door.ask("this")).status_code == 202
            with trio.fail_after(20):
                while len(listener.came) < 3 or door.manager.undelivered:  # noqa: ASYNC110 (it waits for its retry)
                    await trio.sleep(0.02)


@pytest.mark.parametrize("status", [404, 302])
async def test_a_call_back_that_is_refused_for_good_is_set_aside(workshop: Workshop, status: int) -> None:
    async with a_listener(status) as listener:
        callback = {"url": f"http://{listener.address}/replies", "secret": SECRET}
        hook = {**WEBHOOKS["open"], "answer_within": "0s", "callback": callback}
        mailbox = Mailbox(workshop.folder / "inbox.db", workshop.folder)
        settings = {**SETTINGS, "webhooks": {"open": hook}}
        async with served(workshop, settings, mailbox=mailbox, run_model=lambda: "hi") as door:
            await door.ask("this")
            await door.manager.settled()
    assert set_aside(workshop) == [f"the callback of the webhook `open` answers with {status}"]


async def test_an_answer_that_nobody_waits_for_is_set_aside_or_kept_for_who_asks_again(workshop: Workshop) -> None:
    mailbox = Mailbox(workshop.folder / "inbox.db", workshop.folder)
    settings = {**SETTINGS, "webhooks": {"open": {**WEBHOOKS["open"], "answer_within": "0s"}}}
    async with served(workshop, settings, mailbox=mailbox, run_model=lambda prompt: prompt) as door:
        assert (await door.ask("lost")).status_code == 202
        assert (await door.ask("kept", headers={"idempotency-key": "k"})).status_code == 202
        await door.manager.settled()
        again = await door.ask("kept", headers={"idempotency-key": "k"})
    assert texts(again) == ["kept"]
    assert set_aside(workshop) == ["no request waits for this reply any more"]


async def test_an_answer_is_streamed_as_it_is_made(workshop: Workshop) -> None:
    first_read = trio.Event()

    async def run_model_stream(prompt: str) -> AsyncStreamEvents:
        async def events() -> AsyncIterator[StreamEvent]:
            yield StreamEvent.text("one ")
            await first_read.wait()
            yield StreamEvent.text("two")
            yield StreamEvent("final", {"finish_reason": "stop"})

        return AsyncStreamEvents(events())

    headers = {"authorization": f"Bearer {TOKEN}", "accept": "text/event-stream"}
    said = {"message": {"text": "hi"}}
    found: list[tuple[str, Any]] = []
    async with served(workshop, run_model_stream=run_model_stream) as door:
        async with httpx.AsyncClient(timeout=20) as client:
            url = f"http://{door.address}/hooks/open"
            async with client.stream("POST", url, json=said, headers=headers) as answer:
                assert answer.headers["content-type"].startswith("text/event-stream")
                event = ""
                async for line in answer.aiter_lines():
                    if line.startswith("event: "):
                        event = line.removeprefix("event: ")
                    elif line.startswith("data: "):
                        found.append((event, json.loads(line.removeprefix("data: "))))
                    if event == "text":
                        first_read.set()
        await door.manager.settled()
        assert door.manager.undelivered == 0
    kinds = [kind for kind, _ in found]
    assert (kinds[0], kinds[-2:]) == ("accepted", ["reply", "end"])
    assert "".join(data["delta"] for kind, data in found if kind == "text") == "one two"
    assert found[-2][1] == {"kind": "normal", "content": "one two"}


async def test_a_turn_whose_asker_hangs_up_goes_on(workshop: Workshop) -> None:
    begun, go, answered = trio.Event(), trio.Event(), []

    async def run_model(prompt: str) -> str:
        begun.set()
        await go.wait()
        answered.append(prompt)
        return "are you there?"

    async with served(workshop, run_model=run_model) as door:
        body = b'{"message": {"text": "hi"}}'
        head = f"POST /hooks/open HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n"
        async with await trio.open_tcp_stream(*door.address) as stream:
            await stream.send_all(head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body)
            await begun.wait()
        while not door.channel._serving.door.askers.has_room or door.channel._serving.door.askers._waiting:
            await trio.lowlevel.checkpoint()
        go.set()
        await door.manager.settled()
    assert answered == ["hi"]


# Keys


async def test_a_request_that_comes_again_is_one_turn_and_gets_the_same_answer(workshop: Workshop) -> None:
    prompts: list[str] = []

    def run_model(prompt: str) -> str:
        prompts.append(prompt)
        return f"answer {len(prompts)}"

    async with served(workshop, run_model=run_model) as door:
        key = {"idempotency-key": "k1"}
        first = await door.ask("a", headers=key)
        again = await door.ask("a", headers=key)
        other_body = await door.ask("b", headers=key)
        other_key = await door.ask("a", headers={"idempotency-key": "k2"})
        no_key = await door.ask("a")
    assert texts(first) == texts(again) == ["answer 1"]
    assert again.headers["idempotent-replayed"] == "true"
    assert other_body.status_code == 409
    assert (texts(other_key), texts(no_key)) == (["answer 2"], ["answer 3"])


async def test_the_same_request_twice_at_once_is_one_turn_and_both_get_the_answer(workshop: Workshop) -> None:
    go, prompts, found = trio.Event(), [], []

    async def run_model(prompt: str) -> str:
        prompts.append(prompt)
        await go.wait()
        return "once"

    async def ask() -> None:
        found.append(texts(await door.ask("a", headers={"idempotency-key": "k"})))

    async with served(workshop, run_model=run_model) as door, trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        nursery.start_soon(ask)
        askers = door.channel._serving.door.askers
        while sum(map(len, askers._waiting.values())) < 2 or not prompts:
            await trio.lowlevel.checkpoint()
        go.set()
    assert (prompts, found) == (["a"], [["once"], ["once"]])


async def test_a_redelivery_of_github_and_a_replay_under_another_name_are_the_same_request(workshop: Workshop) -> None:
    prompts: list[str] = []
    async with served(workshop, run_model=lambda prompt: prompts.append(prompt) or "yes") as door:
        for delivery in ("1", "1", "2"):
            came = await door.post("/hooks/github", content=ISSUE, headers=from_github(ISSUE, delivery=delivery))
            assert texts(came) == ["yes"]
        other = ISSUE.replace(b"Hm", b"Oh")
        came = await door.post("/hooks/github", content=other, headers=from_github(other, delivery="1"))
    assert (prompts, came.status_code) == (["opened: Hm"], 409)


async def test_a_replay_of_a_signed_request_is_no_second_turn_whatever_its_key_says(workshop: Workshop) -> None:
    prompts: list[str] = []
    body = b'{"message": {"text": "pay"}}'
    headers = signed(body)
    async with served(workshop, run_model=lambda prompt: prompts.append(prompt) or "paid") as door:
        for key in ({}, {"idempotency-key": "a"}, {"idempotency-key": "b"}):
            came = await door.post("/hooks/alarm", content=body, headers={**headers, **key})
            assert texts(came) == ["paid"]
    assert prompts == ["pay"]


async def test_keys_and_answers_are_known_after_a_restart(workshop: Workshop) -> None:
    prompts: list[str] = []

    def run_model(prompt: str) -> str:
        prompts.append(prompt)
        return "yes"

    for _ in range(2):
        mailbox = Mailbox(workshop.folder / "inbox.db", workshop.folder)
        async with served(workshop, mailbox=mailbox, run_model=run_model) as door:
            came = await door.ask("a", headers={"idempotency-key": "k"})
            assert texts(came) == ["yes"]
            assert (await door.ask("b", headers={"idempotency-key": "k"})).status_code == 409
    assert prompts == ["a"]


async def test_an_answer_that_is_known_is_streamed_to_who_wants_a_stream(workshop: Workshop) -> None:
    async with served(workshop, run_model=lambda prompt: prompt) as door:
        await door.ask("a", headers={"idempotency-key": "k"})
        again = await door.ask("a", headers={"idempotency-key": "k", "accept": "text/event-stream"})
    assert again.headers["content-type"].startswith("text/event-stream")
    kinds = [line.removeprefix("event: ") for line in again.text.splitlines() if line.startswith("event: ")]
    assert kinds == ["accepted", "reply", "end"]


async def test_a_request_whose_answer_was_too_long_to_be_kept_is_accepted_even_if_it_wants_a_stream(
    workshop: Workshop,
) -> None:
    prompts: list[str] = []

    def run_model(prompt: str) -> str:
        prompts.append(prompt)
        return "long " * 1_000

    body = b'{"message": {"text": "a"}}'
    token = {"authorization": f"Bearer {TOKEN}", "idempotency-key": "k"}
    async with served(workshop, run_model=run_model) as door:
        for path, headers in (("/hooks/open", token), ("/hooks/alarm", signed(body))):
            first = await door.post(path, content=body, headers=headers)
            assert texts(first) == ["long " * 1_000]
            for accept in ("*/*", "text/event-stream"):
                with trio.fail_after(8):  # less than it would wait for an answer
                    again = await door.post(path, content=body, headers={**headers, "accept": accept})
                assert (again.status_code, again.json()) == (202, {"message_id": first.json()["message_id"]})
    assert prompts == ["a", "a"]


async def test_a_request_that_the_inbox_alone_remembers_is_accepted_at_once_even_if_it_wants_a_stream(
    workshop: Workshop,
) -> None:
    """The channel knows the newest 5,000 requests, and the inbox the newest 10,000."""
    prompts: list[str] = []
    key = {"idempotency-key": "k"}
    mailbox = Mailbox(workshop.folder / "inbox.db", workshop.folder)
    async with served(workshop, mailbox=mailbox, run_model=lambda prompt: prompts.append(prompt) or "yes") as door:
        first = await door.ask("a", headers=key)
        seen = door.channel._serving._seen
        for number in range(5_001):
            known = seen.identify("open", "ada", f"k{number}", b"{}", "")
            seen.note_answer(ChannelMessage("http", message_id=known.message_id), [])
        for accept in ("*/*", "text/event-stream"):
            with trio.fail_after(8):  # less than it would wait for an answer
                again = await door.ask("a", headers={**key, "accept": accept})
            assert (again.status_code, again.json()) == (202, {"message_id": first.json()["message_id"]})
    assert prompts == ["a"]


async def test_a_request_whose_answer_a_kill_kept_from_being_noted_is_accepted_at_once(workshop: Workshop) -> None:
    mailbox = Mailbox(workshop.folder / "inbox.db", workshop.folder)
    received = await kept_before(mailbox, "a", key="k")
    async with mailbox_open(mailbox):
        await mailbox.finish([received.id])
    async with served(workshop, mailbox=mailbox, run_model=lambda: pytest.fail("it was asked")) as door:
        for accept in ("*/*", "text/event-stream"):
            with trio.fail_after(8):  # less than it would wait for an answer
                came = await door.ask("a", headers={"idempotency-key": "k", "accept": accept})
            assert (came.status_code, came.json()) == (202, {"message_id": received.message.message_id})


async def test_a_request_that_came_before_a_kill_is_answered_when_it_comes_again(workshop: Workshop) -> None:
    go, found = trio.Event(), list[httpx.Response]()

    async def run_model(prompt: str) -> str:
        await go.wait()
        return "at last"

    async def ask(accept: str) -> None:
        found.append(await door.ask("a", headers={"idempotency-key": "k", "accept": accept}))

    mailbox = Mailbox(workshop.folder / "inbox.db", workshop.folder)
    await kept_before(mailbox, "a", key="k")
    async with served(workshop, mailbox=mailbox, run_model=run_model) as door, trio.open_nursery() as asking:
        asking.start_soon(ask, "*/*")
        asking.start_soon(ask, "text/event-stream")
        askers = door.channel._serving.door.askers
        while sum(map(len, askers._waiting.values())) < 2:
            await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        go.set()
    assert all('"content":"at last"' in came.text for came in found)


async def test_replies_of_a_turn_that_another_gateway_took_reach_who_waits_and_no_other_is_lost() -> None:
    async def kept(message: ChannelMessage) -> None: ...

    askers = Askers("http", kept, lambda: 9)
    asked = ChannelMessage("http", "hook.a:main", message_id="7")
    first = ChannelMessage("http", "hook.a:main", "first", answers="7")
    second, other = replace(first, content="second"), replace(first, answers="8")
    told: list[bool] = []

    async def ask() -> None:
        async with askers.asking(asked) as asker:
            assert await asker.answered() == [first]
            asker.is_told = True

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        assert ([*askers.find_unanswered(first)], [*askers.find_unanswered(other)]) == ([asked], [])
        askers.end(asked, [first])
        told += [await askers.was_told(one) for one in (first, second, other)]
    assert told == [True, False, False]


async def test_a_request_whose_turn_another_gateway_took_is_accepted_at_once_when_it_comes_again(
    redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = trio.Event()
    hooks = {"open": {**WEBHOOKS["open"], "answer_within": "0s"}}
    office = {"run_model": lambda: began.set() or "yes"}
    async with two_gateways(redis, tmp_path, monkeypatch, hooks, **office) as (listening, answering):
        with trio.fail_after(20):
            first = await listening.ask("a", headers={"idempotency-key": "k"})
            await began.wait()
            await answering.manager.settled()
            again = await listening.ask("a", headers={"idempotency-key": "k", "accept": "text/event-stream"})
    assert [(came.status_code, came.json()) for came in (first, again)] == [(202, first.json())] * 2


async def test_a_stream_whose_turn_another_gateway_took_ends_even_if_nobody_answers(
    redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = {"run_model": lambda: pytest.fail("it was asked"), "admit_message": lambda: "drop"}
    async with two_gateways(redis, tmp_path, monkeypatch, WEBHOOKS, **office) as (listening, _):
        with trio.fail_after(20):
            came = await listening.ask("a", headers={"accept": "text/event-stream"})
    assert [line for line in came.text.splitlines() if line.startswith("event: ")] == ["event: accepted", "event: end"]


@pytest.mark.parametrize("accept", ["text/event-stream", "*/*"])
async def test_a_request_whose_message_another_gateway_gave_to_a_turn_under_way_gets_the_answer_of_that(
    redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accept: str
) -> None:
    began, prompts = trio.Event(), list[str]()
    came, again = dict[str, httpx.Response](), dict[str, httpx.Response]()

    async def run_model(prompt: str, state: dict[str, Any]) -> str:
        prompts.append(prompt)
        began.set()
        # An agent looks between its steps for what came in; nothing tells it. The test's `fail_after` ends the wait.
        while not (taken := state["_runtime_steering_inbox"].take()):  # noqa: ASYNC110 (see above)
            await trio.sleep(0.01)
        return " ".join([content_of(one) for one in taken])

    async def ask(text: str, found: dict[str, httpx.Response]) -> None:
        found[text] = await listening.ask(text, headers={"accept": accept, "idempotency-key": text})

    office: dict[str, Any] = {"run_model": run_model, "admit_message": lambda: "steer"}
    async with two_gateways(redis, tmp_path, monkeypatch, WEBHOOKS, **office) as (listening, _):
        with trio.fail_after(20):
            async with trio.open_nursery() as asking:
                asking.start_soon(ask, "a", came)
                await began.wait()
                asking.start_soon(ask, "b", came)
            for text in came:
                await ask(text, again)
    assert len(prompts) == 1
    assert all(one.text.count('{"kind":"normal","content":"b"}') == 1 for one in [*came.values(), *again.values()])
    assert all("event: end" in one.text for one in came.values()) == (accept == "text/event-stream")


async def test_nobody_is_called_back_if_nobody_answers(workshop: Workshop) -> None:
    async with a_listener() as listener:
        callback = {"url": f"http://{listener.address}/replies", "secret": SECRET}
        hooks = {"open": {**WEBHOOKS["open"], "answer_within": "0s", "callback": callback}}
        async with served(workshop, {**SETTINGS, "webhooks": hooks}, admit_message=lambda: "drop") as door:
            assert (await door.ask("a")).status_code == 202
            await door.manager.settled()
    assert listener.came == []


async def test_a_request_that_nobody_answers_has_no_replies(workshop: Workshop) -> None:
    async with served(workshop, admit_message=lambda: "drop") as door:
        for _ in range(2):
            assert texts(await door.ask("a", headers={"idempotency-key": "k"})) == []


async def test_two_clients_may_use_the_same_key(workshop: Workshop) -> None:
    hooks = {"open": {**WEBHOOKS["open"], "clients": ["ada", "bob"]}}
    async with served(workshop, {**SETTINGS, "webhooks": hooks}, run_model=lambda prompt: prompt) as door:
        key = {"idempotency-key": "k"}
        assert texts(await door.ask("a", headers=key)) == ["a"]
        assert texts(await door.ask("b", token=CLIENTS["bob"]["token"], headers=key)) == ["b"]  # type: ignore[arg-type]


# Settings


async def test_it_speaks_https_with_a_certificate_of_the_settings(workshop: Workshop) -> None:
    certificate = make_certificate(workshop.folder)
    tls = {"certificate": certificate.file, "key": certificate.key}
    async with served(workshop, {**SETTINGS, "listen": "0.0.0.0:0", "tls": tls}) as door:
        context = ssl.create_default_context(cafile=certificate.file)
        async with httpx.AsyncClient(verify=context) as client:
            url = f"https://127.0.0.1:{door.address.port}/hooks/open"
            headers = {"authorization": f"Bearer {TOKEN}"}
            assert texts(await client.post(url, json={"message": {"text": "hi"}}, headers=headers))


async def test_settings_are_taken_over_at_once_and_an_address_needs_a_restart(workshop: Workshop) -> None:
    async with served(workshop) as door:
        new = json.loads(json.dumps(SETTINGS))
        new["listen"] = "127.0.0.1:8751"
        new["clients"]["ada"]["token"] = "new-0123456789abcdef"
        del new["webhooks"]["alarm"]
        fixed = door.channel.reload(SimpleNamespace(settings={"http": new}, profiles=door.framework.profiles))
        assert fixed == ["http.listen"]
        assert (await door.ask("a")).status_code == 401
        assert texts(await door.ask("a", token="new-0123456789abcdef"))
        body = b'{"message": {"text": "x"}}'
        assert (await door.post("/hooks/alarm", content=body, headers=signed(body))).status_code == 404
        new["clients"]["bob"]["token"] = "new-0123456789abcdef"
        with pytest.raises(BubError, match="have the same token"):
            door.channel.reload(SimpleNamespace(settings={"http": new}, profiles=door.framework.profiles))
        assert texts(await door.ask("a", token="new-0123456789abcdef"))


async def test_a_message_whose_webhook_is_gone_is_set_aside(workshop: Workshop) -> None:
    mailbox = Mailbox(workshop.folder / "inbox.db", workshop.folder)
    await mailbox.open()
    await mailbox.receive(ChannelMessage("http", "hook.gone:main", "hello"))
    await mailbox.receive(ChannelMessage("http", "bob:main", "hello", profile="default"))
    await mailbox.close()
    async with served(workshop, mailbox=mailbox, run_model=lambda: pytest.fail("it was asked")) as door:
        await door.manager.settled()
    assert set_aside(workshop) == ["its writer may not write here any more"] * 2


async def test_a_stream_whose_webhook_is_removed_while_its_message_waits_ends(workshop: Workshop) -> None:
    go, prompts, found = trio.Event(), list[str](), list[str]()

    async def run_model(prompt: str) -> str:
        prompts.append(prompt)
        await go.wait()
        return "yes"

    async def ask(text: str) -> None:
        found.append((await door.ask(text, headers={"accept": "text/event-stream"})).text)

    mailbox = Mailbox(workshop.folder / "inbox.db", workshop.folder)
    async with served(workshop, mailbox=mailbox, run_model=run_model) as door:
        with trio.fail_after(10):
            async with trio.open_nursery() as asking:
                asking.start_soon(ask, "first")
                while not prompts:
                    await trio.lowlevel.checkpoint()
                asking.start_soon(ask, "second")
                while door.manager.waiting < 2:
                    await trio.lowlevel.checkpoint()
                hooks = {name: hook for name, hook in WEBHOOKS.items() if name != "open"}
                settings = {"http": {**SETTINGS, "webhooks": hooks}}
                door.channel.reload(SimpleNamespace(settings=settings, profiles=door.framework.profiles))
                go.set()
    assert prompts == ["first"]
    assert [("event: reply" in text, text.endswith("event: end\ndata: {}\n\n")) for text in found] == [
        (True, True),
        (False, True),
    ]
    assert set_aside(workshop)[0] == "its writer may not write here any more"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"clients": {"a": {"token": "short"}}}, "has less than 16 characters"),
        ({"clients": {"a": {"token": "with blanks in its middle"}}}, "has a blank"),
        ({"clients": {"a": {"token": TOKEN}, "b": {"token": TOKEN}}}, "have the same token"),
        ({"clients": {"a": {"token": TOKEN, "profiles": ["nope"]}}}, "which is not loaded"),
        ({"webhooks": {"w": {"secret": "short"}}}, "has less than 16 characters"),
        ({"webhooks": {"w": {"clients": ["nobody"]}}}, "which is no client"),
        ({"webhooks": {"w": {"clients": []}}}, "anybody could ask the webhook `w`"),
        ({"webhooks": {"w:x": {"secret": SECRET}}}, "is not a name that a webhook can have"),
        ({"listen": "0.0.0.0:0"}, "nothing encrypts"),
        ({"rate": {"per_minute": 0}}, "lets nobody ask"),
    ],
)
async def test_settings_that_leave_something_open_keep_the_channel_from_beginning(
    workshop: Workshop, change: dict[str, Any], says: str
) -> None:
    framework = workshop(pipeline_of({}), office=Toy(run_model=lambda: "hi"))

    said = {"http": {"listen": "127.0.0.1:0", "webhooks": {"w": {"secret": SECRET}}, **change}}
    view = SimpleNamespace(settings=said, profiles=framework.profiles, workspace=framework.workspace)
    with pytest.raises(BubError, match=says), trio.fail_after(5):
        await HttpApi(view, print).run()  # type: ignore[arg-type]


async def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bub_plugins.http.serving", "bub_plugins.http.app"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    channel = HttpApi(SimpleNamespace(settings={"http": SETTINGS}), print)  # type: ignore[arg-type]
    with pytest.raises(BubError, match="the extra `web`") as caught:
        await channel.run()
    assert caught.value.help == f"run `{install_command('web')}`"


async def test_without_clients_and_webhooks_it_is_not_enabled(workshop: Workshop) -> None:
    channel = HttpApi(SimpleNamespace(settings={}), print)  # type: ignore[arg-type]
    assert not channel.enabled
    assert "settings.http.clients" in channel.why_disabled


@asynccontextmanager
async def two_gateways(
    redis: RedisServer, folder: Path, monkeypatch: pytest.MonkeyPatch, webhooks: Mapping[str, Any], **office: Any
) -> AsyncIterator[list[Door]]:
    """A gateway that listens, and one that runs the turns; they share an inbox."""
    async with AsyncExitStack() as stack:
        doors = []
        for role in ("channels", "turns"):
            (folder / role).mkdir()
            pipeline = pipeline_of({**SETTINGS, "webhooks": webhooks})
            framework = Workshop(folder / role, monkeypatch)(pipeline, office=Toy(**office))
            inbox = RedisInbox(StoreAddress.parse(f"{redis.address}?partitions=2&lease=600ms"), "office")
            await stack.enter_async_context(framework.running())
            tasks = await stack.enter_async_context(trio.open_nursery())
            manager = ChannelManager(framework, mailbox=inbox, worker=Worker(role, roles=(role,)))
            await tasks.start(manager.run)
            stack.callback(manager.drain)
            doors.append(Door(framework, manager))
        with trio.fail_after(20):
            while doors[0].address is None:  # noqa: ASYNC110 (it listens once it has a lease; no event says so)
                await trio.sleep(0.01)
        yield doors


@asynccontextmanager
async def mailbox_open(mailbox: Mailbox) -> AsyncIterator[None]:
    await mailbox.open()
    try:
        yield
    finally:
        await mailbox.close()


async def kept_before(mailbox: Mailbox, text: str, *, key: str) -> Received:
    """A request of a client to `open` as a process leaves it in the inbox that is killed before it notes anything."""
    identity = Seen({}, lambda name, note: None).identify("open", "ada", key, b"", "")
    message = ChannelMessage(
        "http", "hook.open:main", text, message_id=identity.message_id, once=identity.once, sender_id="ada"
    )
    async with mailbox_open(mailbox):
        received = await mailbox.receive(message)
    assert received is not None
    return received


def set_aside(workshop: Workshop) -> list[str | None]:
    kept = SqliteInbox(workshop.folder / "inbox.db", workshop.folder)
    kept.open()
    entries = kept.alone(kept.list_entries)
    kept.close()
    return [entry.reason for entry in entries]


class Listener(HttpChannel):
    """Takes what is called back, if its signature matches; the first answers are these statuses."""

    name = "listener"
    path = "/replies"

    def __init__(self, statuses: tuple[int, ...]) -> None:
        super().__init__(print, 0)  # type: ignore[arg-type]
        self.statuses = list(statuses)
        self.came: list[tuple[Any, Any]] = []

    def read(self, request: Request) -> Response:
        check_signature(request, SECRET)
        self.came.append((request.json(), request.headers))
        status = self.statuses.pop(0) if self.statuses else 204
        return Response(status, headers={"retry-after": "0", "location": "/elsewhere"})


@asynccontextmanager
async def a_listener(*statuses: int) -> AsyncIterator[Listener]:
    listener = Listener(statuses)
    async with trio.open_nursery() as nursery:
        await nursery.start(listener.run)
        yield listener
        nursery.cancel_scope.cancel()
