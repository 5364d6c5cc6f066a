"""Channels that are asked over HTTP: what each request is told, and that no stranger is a burden."""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from typing import Any

import httpx
import pytest
import trio
from fakes.line import opened
from fakes.toys import Toy, Workshop
from trio.testing import wait_all_tasks_blocked

from bub.channels import ChannelMessage
from bub.channels.http import HttpChannel, HttpError, Request, Response, check_signature
from bub.errors import BubError, UsageError
from bub.inbox.mailbox import Mailbox
from bub.inbox.sqlite import SqliteInbox

pytestmark = pytest.mark.anyio


class Hook(HttpChannel):
    """Takes `{"chat": …, "text": …}`, with an `id` if there is one; keeps what could not be answered in time."""

    name = "hook"

    def __init__(self, message_handler: Any, **how: Any) -> None:
        super().__init__(message_handler, 0)
        self.late: list[str] = []
        for what, value in how.items():
            setattr(self, what, value)

    def read(self, request: Request) -> Any:
        chat, text = request.pick("chat", "text")
        return ChannelMessage(chat_id=chat, content=text, once=str(request.json().get("id", "")))

    async def deliver(self, message: ChannelMessage) -> None:
        self.late.append(message.content)


@asynccontextmanager
async def asked(
    workshop: Workshop, kind: Callable[..., HttpChannel] = Hook, *, mailbox: Mailbox | None = None, **hooks: Any
) -> AsyncIterator[Any]:
    """The channel while it runs, in a gateway whose model says what it is told unless it is given another."""
    made: list[HttpChannel] = []

    def provide_channels(message_handler: Any) -> list[HttpChannel]:
        made.append(kind(message_handler))
        return made[-1:]

    hooks.setdefault("run_model", lambda prompt: f"you said {prompt}")
    framework = workshop("extends: bub:default", office=Toy(provide_channels=provide_channels, **hooks))
    async with opened(framework, mailbox=mailbox):
        yield made[-1]


async def post(channel: HttpChannel, said: Any = None, **how: Any) -> httpx.Response:
    async with httpx.AsyncClient(timeout=20) as client:
        method, path = how.pop("method", "POST"), how.pop("path", "/")
        body = {"json": said} if said is not None else {}
        return await client.request(method, f"http://{channel.address}{path}", **body, **how)


async def sent(channel: HttpChannel, request: bytes) -> bytes:
    """All that comes back for these bytes."""
    answer = b""
    async with await trio.open_tcp_stream(*channel.address) as stream:
        with suppress(trio.BrokenResourceError):  # it does not read on
            await stream.send_all(request)
        with suppress(trio.BrokenResourceError):
            async for part in stream:
                answer += part
    return answer


def hello(text: str = "hello", **more: str) -> dict[str, str]:
    return {"chat": "ada", "text": text, **more}


# What a request is told


async def test_a_request_is_answered_by_the_reply_of_its_turn(workshop: Workshop) -> None:
    async with asked(workshop) as channel:
        came = await post(channel, hello(id="7"))
        assert (came.status_code, came.json()) == (
            200,
            {"message_id": "7", "replies": [{"kind": "normal", "content": "you said hello"}]},
        )
        assert came.headers["content-type"] == "application/json"
        assert channel.late == []


async def test_all_replies_of_a_turn_are_in_its_answer(workshop: Workshop) -> None:
    def render_outbound(message: Any, model_output: str) -> list[dict[str, str]]:
        return [{"channel": "hook", "chat_id": "ada", "content": text} for text in ("one", "two", model_output)]

    mailbox = Mailbox(None, workshop.folder)
    async with asked(workshop, mailbox=mailbox, render_outbound=render_outbound) as channel:
        came = await post(channel, hello())
        assert [reply["content"] for reply in came.json()["replies"]] == ["one", "two", "you said hello"]
        await channel.desk.settled()
        assert (channel.late, await mailbox.outgoing()) == ([], [])  # they have arrived, and are not sent again


async def test_requests_are_answered_side_by_side_and_each_by_its_own_reply(workshop: Workshop) -> None:
    everybody = trio.Event()
    seen: list[str] = []

    async def run_model(prompt: str) -> str:
        seen.append(prompt)
        if len(seen) == 20:
            everybody.set()
        await everybody.wait()
        return f"you said {prompt}"

    found: dict[int, Any] = {}

    async def ask(number: int) -> None:
        came = await post(channel, {"chat": str(number), "text": f"number {number}"})
        found[number] = came.json()["replies"][0]["content"]

    async with asked(workshop, run_model=run_model) as channel, trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(ask, number)
    assert found == {number: f"you said number {number}" for number in range(20)}


async def test_who_waits_too_long_is_told_so_and_the_reply_is_delivered_when_it_is_there(workshop: Workshop) -> None:
    go = trio.Event()

    async def run_model(prompt: str) -> str:
        await go.wait()
        return "at last"

    async with asked(workshop, lambda handler: Hook(handler, answer_within=0.05), run_model=run_model) as channel:
        came = await post(channel, hello(id="7"))
        assert (came.status_code, came.json()) == (202, {"message_id": "7"})
        go.set()
        await channel.desk.settled()
        assert channel.late == ["at last"]


async def test_a_reply_that_nobody_waits_for_and_nobody_delivers_is_set_aside(workshop: Workshop) -> None:
    class Bare(HttpChannel):
        name = "hook"
        answer_within = 0
        read = Hook.read

    mailbox_file = workshop.folder / "inbox.db"
    mailbox = Mailbox(mailbox_file, workshop.folder)
    async with asked(workshop, lambda handler: Bare(handler, 0), mailbox=mailbox) as channel:
        assert (await post(channel, hello())).status_code == 202
        await channel.desk.settled()
        assert await mailbox.outgoing() == []
    kept = SqliteInbox(mailbox_file, workshop.folder)
    kept.open()
    [entry] = kept.alone(kept.list_entries)
    kept.close()
    assert (entry.kind, entry.reason) == ("reply", "no request waits for this reply any more")


async def test_a_message_that_nobody_answers_has_no_replies(workshop: Workshop) -> None:
    async with asked(workshop, admit_message=lambda: "drop") as channel:
        came = await post(channel, hello(id="7"))
        assert (came.status_code, came.json()) == (200, {"message_id": "7", "replies": []})


async def test_a_turn_that_fails_is_answered_by_its_apology(workshop: Workshop) -> None:
    def run_model() -> str:
        raise RuntimeError("/home/ada is full")

    async with asked(workshop, run_model=run_model) as channel:
        came = await post(channel, hello())
        [reply] = came.json()["replies"]
        assert (came.status_code, reply["kind"]) == (200, "error")
        assert "/home" not in reply["content"]


async def test_the_same_message_twice_at_once_is_one_turn_and_both_are_told(workshop: Workshop) -> None:
    go, prompts, found = trio.Event(), [], []

    async def run_model(prompt: str) -> str:
        prompts.append(prompt)
        await go.wait()
        return "once"

    async def ask() -> None:
        found.append((await post(channel, hello(id="7"))).json()["replies"][0]["content"])

    async with asked(workshop, run_model=run_model) as channel, trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        nursery.start_soon(ask)
        while len(channel._askers.get(("ada", "7"), ())) < 2 or not prompts:
            await trio.lowlevel.checkpoint()
        go.set()
    assert (prompts, found) == (["hello"], ["once", "once"])


async def test_a_message_that_was_answered_is_accepted_at_once_when_it_comes_again(workshop: Workshop) -> None:
    prompts: list[str] = []

    def run_model(prompt: str) -> str:
        prompts.append(prompt)
        return "hi"

    async with asked(workshop, run_model=run_model) as channel:
        first = await post(channel, hello(id="7"))
        with trio.fail_after(10):  # less than it would wait for an answer
            again = await post(channel, hello(id="7"))
        unnamed = [(await post(channel, hello())).status_code for _ in range(2)]
    assert (first.status_code, again.status_code, again.json()) == (200, 202, {"message_id": "7"})
    assert (unnamed, len(prompts)) == ([200, 200], 3)


async def test_a_message_that_was_answered_before_a_restart_is_accepted_at_once(workshop: Workshop) -> None:
    mailbox = Mailbox(workshop.folder / "inbox.db", workshop.folder)
    for status in (200, 202):
        async with asked(workshop, mailbox=mailbox) as channel:
            with trio.fail_after(10):  # less than it would wait for an answer
                assert (await post(channel, hello(id="7"))).status_code == status


async def test_a_message_is_waited_for_whose_handler_says_nothing() -> None:
    async def handler(message: Any) -> None:
        nursery.start_soon(answer, message)

    async def answer(message: ChannelMessage) -> None:
        channel.on_answered(message, [ChannelMessage("hook", message.chat_id, "hi", answers=message.message_id)])

    async with trio.open_nursery() as nursery:
        channel = Hook(handler)
        await nursery.start(channel.run)
        for _ in range(2):
            assert (await post(channel, hello(id="7"))).json()["replies"] == [{"kind": "normal", "content": "hi"}]
        nursery.cancel_scope.cancel()


async def test_what_is_accepted_is_on_the_disk(workshop: Workshop) -> None:
    go = trio.Event()
    mailbox = Mailbox(workshop.folder / "inbox.db", workshop.folder)

    async def run_model() -> str:
        await go.wait()
        return "at last"

    channel_of = lambda handler: Hook(handler, answer_within=0)  # noqa: E731
    async with asked(workshop, channel_of, mailbox=mailbox, run_model=run_model) as channel:
        assert (await post(channel, hello())).status_code == 202
        assert [one.message.content for one in await mailbox.waiting()] == ["hello"]
        go.set()


async def test_what_cannot_be_kept_is_refused() -> None:
    async def handler(message: Any) -> None:
        raise BubError("the disk is full")

    async with trio.open_nursery() as nursery:
        channel = Hook(handler)
        await nursery.start(channel.run)
        came = await post(channel, hello())
        assert (came.status_code, came.headers["retry-after"]) == (503, "10")
        assert channel._askers == {}
        nursery.cancel_scope.cancel()


async def test_the_reply_to_somebody_who_has_hung_up_is_delivered_otherwise(workshop: Workshop) -> None:
    begun, go = trio.Event(), trio.Event()

    async def run_model() -> str:
        begun.set()
        await go.wait()
        return "are you there?"

    async with asked(workshop, run_model=run_model) as channel:
        body = json.dumps(hello()).encode()
        async with await trio.open_tcp_stream(*channel.address) as stream:
            await stream.send_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
            await begun.wait()
        while channel._askers:
            await trio.lowlevel.checkpoint()
        go.set()
        await channel.desk.settled()
        assert channel.late == ["are you there?"]


async def test_a_subclass_answers_as_it_likes(workshop: Workshop) -> None:
    class Shaped(Hook):
        async def read(self, request: Request) -> Any:  # type: ignore[override]
            if request.query.get("challenge"):
                return Response.text(200, request.query["challenge"])
            return None if b"ping" in request.body else Hook.read(self, request)

        def answer(self, message: ChannelMessage, replies: Any) -> Response:
            return Response.json(201, {"text": replies[0].content})

    async with asked(workshop, Shaped) as channel:
        assert (await post(channel, {}, path="/?challenge=42")).text == "42\n"
        nothing = await post(channel, {"ping": 1})
        assert (nothing.status_code, nothing.content, "content-length" in nothing.headers) == (204, b"", False)
        came = await post(channel, hello())
        assert (came.status_code, came.json()) == (201, {"text": "you said hello"})


# What is refused


@pytest.mark.parametrize(
    ("how", "status", "says"),
    [
        ({"path": "/else"}, 404, "nothing here"),
        ({"method": "GET"}, 405, "only POST"),
        ({"headers": {"origin": "https://evil.example"}}, 403, "pages of other sites"),
        ({"content": b"{"}, 400, "the body is not JSON"),
        ({"content": b"[" * 100_000}, 400, "the body is not JSON"),
        ({"content": b'"\\ud800"'}, 400, ""),
        ({"content": b"[]"}, 400, "`chat` is missing"),
        ({"content": b'{"chat": "ada", "text": true}'}, 400, "`text` is missing"),
        ({"content": b'{"chat": "ada"}'}, 400, "`text` is missing"),
        ({"content": b"x" * 2_000_000}, 413, "1,048,576 bytes"),
        ({"headers": {"x-large": "x" * 40_000}}, 431, ""),
    ],
    ids=["path", "method", "origin", "json", "deep", "surrogate", "list", "type", "missing", "body", "header"],
)
async def test_what_is_refused_brings_no_message(
    workshop: Workshop, how: dict[str, Any], status: int, says: str
) -> None:
    prompts: list[str] = []
    async with asked(workshop, run_model=lambda prompt: prompts.append(prompt)) as channel:
        came = await post(channel, None, **how)
        assert (came.status_code, says in came.text) == (status, True)
    assert prompts == []


async def test_a_page_of_a_site_that_is_named_may_ask(workshop: Workshop) -> None:
    async with asked(workshop, lambda handler: Hook(handler, origins=("https://ours.example",))) as channel:
        assert (await post(channel, hello(), headers={"origin": "https://ours.example"})).status_code == 200


async def test_a_read_that_fails_is_500_and_the_next_request_is_answered(workshop: Workshop, log: list[str]) -> None:
    class Broken(Hook):
        def read(self, request: Request) -> Any:
            return Hook.read(self, request) if request.body else request.headers["x-missing"]

    async with asked(workshop, Broken) as channel:
        assert (await post(channel, None)).status_code == 500
        assert [line for line in log if line.startswith("hook.failed")]
        assert (await post(channel, hello())).status_code == 200


async def test_a_channel_without_a_read_says_so_at_the_start() -> None:
    class Forgetful(HttpChannel):
        name = "forgetful"

    with pytest.raises(BubError, match="`forgetful` has no `read`"), trio.fail_after(5):
        await Forgetful(print).run()  # type: ignore[arg-type]


async def test_a_read_that_hangs_is_500(workshop: Workshop) -> None:
    class Hanging(Hook):
        async def read(self, request: Request) -> Any:  # type: ignore[override]
            await trio.sleep_forever()

    async with asked(workshop, lambda handler: Hanging(handler, patience=0.1)) as channel:
        assert (await post(channel, hello())).status_code == 500


async def test_a_channel_that_fails_when_it_is_told_of_an_answer_gets_the_replies_all_the_same(
    workshop: Workshop, log: list[str]
) -> None:
    class Deaf(Hook):
        def on_answered(self, message: ChannelMessage, replies: Any) -> None:
            raise RuntimeError("what?")

    async with asked(workshop, lambda handler: Deaf(handler, answer_within=0.1)) as channel:
        assert (await post(channel, hello())).status_code == 202
        await channel.desk.settled()
        assert channel.late == ["you said hello"]
    assert [line for line in log if line.startswith("channel.on_answered_failed")]


async def test_a_body_without_a_length_is_bounded_too(workshop: Workshop) -> None:
    async with asked(workshop, lambda handler: Hook(handler, most_bytes=1000)) as channel:
        head = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
        assert (await sent(channel, head + b"400\r\n" + b"x" * 1024 + b"\r\n0\r\n\r\n")).startswith(b"HTTP/1.1 413 ")
        body = json.dumps(hello()).encode()
        chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        assert (await sent(channel, head + chunked)).startswith(b"HTTP/1.1 200 ")


async def test_who_asks_first_whether_to_send_the_body_is_told(workshop: Workshop) -> None:
    async with asked(workshop) as channel, await trio.open_tcp_stream(*channel.address) as stream:
        body = json.dumps(hello()).encode()
        head = b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: %d\r\n\r\n"
        await stream.send_all(head % len(body))
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 100 ")
        await stream.send_all(body)
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 ")
        answer = await sent(channel, head % 5_000_000)
        assert answer.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("begun", "status"),
    [(b"", b""), (b"POST / HT", b""), (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{", b"HTTP/1.1 408 ")],
)
async def test_who_is_slow_is_let_go(workshop: Workshop, begun: bytes, status: bytes) -> None:
    async with asked(workshop, lambda handler: Hook(handler, patience=0.1)) as channel:
        since = time.monotonic()
        assert (await sent(channel, begun))[:13] == status
        assert time.monotonic() - since < 10


async def test_one_connection_too_many_is_closed_and_the_others_are_answered(workshop: Workshop) -> None:
    async with asked(workshop, lambda handler: Hook(handler, most_connections=1)) as channel:
        async with await trio.open_tcp_stream(*channel.address) as first:
            await first.send_all(b"POST / ")
            await wait_all_tasks_blocked()
            assert await sent(channel, b"") == b""
        while (await sent(channel, b"x\r\n\r\n")) == b"":  # until it is noticed that the first one has gone
            await trio.lowlevel.checkpoint()
        assert (await post(channel, hello())).status_code == 200


def test_it_listens_on_this_machine_alone_unless_told() -> None:
    assert str(HttpChannel(print, 8080).address) == "127.0.0.1:8080"  # type: ignore[arg-type]
    assert str(HttpChannel(print, "0.0.0.0:8080").address) == "0.0.0.0:8080"  # type: ignore[arg-type]
    for wrong in ("example.org:80", "8080", "127.0.0.1:x"):
        with pytest.raises(UsageError, match="to listen on"):
            HttpChannel(print, wrong)  # type: ignore[arg-type]


async def test_a_port_that_is_taken_is_told(workshop: Workshop) -> None:
    async with asked(workshop) as channel:
        other = Hook(print, address=channel.address)
        with pytest.RaisesGroup(BubError) as caught:
            await other.run()
        assert "cannot listen at" in str(caught.value.exceptions[0])


# Signatures


def signed(body: bytes, *, at: str | None = None, secret: str = "s3cret", before: str = "{}.") -> dict[str, str]:
    at = at if at is not None else str(int(time.time()))
    right = hmac.new(secret.encode(), before.format(at).encode() + body, sha256).hexdigest()
    return {"x-timestamp": at, "x-signature": right}


def test_a_signature_that_matches_is_let_pass() -> None:
    check_signature(Request("POST", "/", headers=signed(b"{}"), body=b"{}"), "s3cret")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        signed(b"{}", secret="other"),
        signed(b"{ }"),
        {**signed(b"{}"), "x-signature": ""},
        {**signed(b"{}"), "x-signature": "é"},
        {"x-signature": signed(b"{}")["x-signature"]},
        {**signed(b"{}"), "x-timestamp": str(int(time.time()) - 1)},
        signed(b"{}", at=str(int(time.time()) - 301)),
        signed(b"{}", at=str(int(time.time()) + 86_400)),  # the run of all tests takes a while
        signed(b"{}", at=""),
        signed(b"{}", at="-5"),
        signed(b"{}", at="٣"),
        signed(b"{}", at="9" * 5000),
    ],
)
def test_any_other_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(HttpError) as caught:
        check_signature(Request("POST", "/", headers=headers, body=b"{}"), "s3cret")
    assert caught.value.response.status == 401


def test_an_empty_secret_lets_nobody_pass() -> None:
    with pytest.raises(BubError, match="is empty"):
        check_signature(Request("POST", "/", headers=signed(b"{}", secret=""), body=b"{}"), "")


def test_the_ways_of_others_can_be_said() -> None:
    right = hmac.new(b"s3cret", b"{}", sha256).hexdigest()
    github = Request("POST", "/", headers={"x-hub-signature-256": f"sha256={right}"}, body=b"{}")
    check_signature(github, "s3cret", header="x-hub-signature-256", prefix="sha256=", timestamp="", signed="")
    slack = {
        name: f"v0={one}" if name == "x-signature" else one for name, one in signed(b"{}", before="v0:{}:").items()
    }
    check_signature(Request("POST", "/", headers=slack, body=b"{}"), "s3cret", prefix="v0=", signed="v0:{timestamp}:")
