"""What strangers, and clients that mean ill, try at the HTTP channel: nothing opens that is not theirs."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing
from fakes.toys import Workshop
from fakes.web_channel import OTHER_TOKEN, PROFILES, SECRET, SETTINGS, TOKEN, WEBHOOKS, from_github, served, signed

from bub import tool
from bub.channels import ChannelMessage
from bub.inbox.mailbox import Mailbox
from bub_plugins.http.clients import Client, Clients, chat_of_client, is_id, is_session_name, session_name
from bub_plugins.http.settings import ClientSettings, HttpSettings, may_ask

pytestmark = pytest.mark.anyio

BODY = b'{"message": {"text": "hi"}}'


def bearer(token: str = TOKEN) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def never() -> str:
    return pytest.fail("it was asked")


# Who asks


NO_TOKEN = [
    {},
    {"authorization": ""},
    {"authorization": "Bearer"},
    {"authorization": "Bearer,"},
    {"authorization": TOKEN},
    {"authorization": f"Basic {TOKEN}"},
    {"authorization": f"Bearer {TOKEN[:-1]}"},
    {"authorization": f"Bearer {TOKEN}x"},
    {"authorization": f"Bearer {TOKEN} {TOKEN}"},
    {"authorization": f"Bearer {TOKEN.upper()}"},
    {"x-api-key": TOKEN},
    signed(BODY),
]


async def test_without_the_token_nobody_asks(workshop: Workshop) -> None:
    async with served(workshop, run_model=never) as door:
        for headers in NO_TOKEN:
            came = await door.post("/hooks/open", content=BODY, headers=headers)
            assert (came.status_code, came.headers["www-authenticate"]) == (401, "Bearer"), headers
            assert TOKEN not in came.text


async def test_the_token_of_another_client_does_not_open_a_webhook(workshop: Workshop) -> None:
    async with served(workshop, run_model=never) as door:
        assert (await door.post("/hooks/open", content=BODY, headers=bearer(OTHER_TOKEN))).status_code == 403
        assert (await door.post("/hooks/alarm", content=BODY, headers=bearer())).status_code == 401


async def test_a_client_that_is_removed_while_its_message_waits_is_refused(workshop: Workshop) -> None:
    go, prompts, found = trio.Event(), list[str](), list[int]()

    async def run_model(prompt: str) -> str:
        prompts.append(prompt)
        await go.wait()
        return "yes"

    async def ask(text: str) -> None:
        said = {"model": "default", "messages": [{"role": "user", "content": text}]}
        headers = {**bearer(), "x-bub-session": "one"}
        found.append((await door.post("/v1/chat/completions", said, headers=headers)).status_code)

    async with served(workshop, run_model=run_model) as door, trio.open_nursery() as asking:
        asking.start_soon(ask, "first")
        while not prompts:
            await trio.lowlevel.checkpoint()
        asking.start_soon(ask, "second")
        while door.manager.waiting < 2:
            await trio.lowlevel.checkpoint()
        settings = {"http": {**SETTINGS, "clients": {"bob": SETTINGS["clients"]["bob"]}, "webhooks": {}}}
        door.channel.reload(SimpleNamespace(settings=settings, profiles=door.framework.profiles))
        go.set()
    assert (prompts, found) == (["first"], [200, 403])


NO_SIGNATURE = [
    {},
    signed(BODY, secret="another-0123456789abc"),
    signed(BODY + b" "),
    signed(BODY, at=int(time.time()) - 301),
    signed(BODY, at=int(time.time()) + 86_400),
    {**signed(BODY), "x-timestamp": str(int(time.time()) - 1)},
    {**signed(BODY), "x-signature": ""},
    {"x-signature": signed(BODY)["x-signature"]},
    from_github(BODY),
    bearer(),
]


async def test_a_signature_that_does_not_match_opens_nothing(workshop: Workshop) -> None:
    async with served(workshop, run_model=never) as door:
        for headers in NO_SIGNATURE:
            came = await door.post("/hooks/alarm", content=BODY, headers=headers)
            assert came.status_code == 401, headers
            assert SECRET not in came.text


NOT_GITHUB = [
    ({"x-hub-signature-256": ""}, 401),
    ({"x-hub-signature-256": "sha256="}, 401),
    ({"x-hub-signature-256": from_github(BODY)["x-hub-signature-256"].removeprefix("sha256=")}, 401),
    ({"x-hub-signature": "sha1=0"}, 401),
    (signed(BODY), 401),
    ({"x-github-event": "issues\u00e9"}, 400),
    ({"x-github-event": "../x"}, 400),
    ({"x-github-event": ""}, 400),
    ({"x-github-delivery": ""}, 400),
    ({"x-github-delivery": "a b"}, 400),
    ({"x-github-delivery": "x" * 129}, 400),
]


async def test_what_is_not_from_github_opens_nothing(workshop: Workshop) -> None:
    async with served(workshop, run_model=never) as door:
        for change, status in NOT_GITHUB:
            right = from_github(BODY)
            if status == 401:
                del right["x-hub-signature-256"]
            headers = {name: value.encode() for name, value in {**right, **change}.items()}
            came = await door.post("/hooks/github", content=BODY, headers=headers)
            assert came.status_code == status, change


async def test_a_key_that_is_none_is_refused(workshop: Workshop) -> None:
    async with served(workshop, run_model=never) as door:
        for key in ("a b", "é", "x" * 129, "a\tb"):
            came = await door.post("/hooks/open", content=BODY, headers={**bearer(), "idempotency-key": key.encode()})
            assert came.status_code == 400, key


# Whose session


HOSTILE = {
    "channel": "cli",
    "chat_id": "local",
    "session_id": "cli:local",
    "output_channel": "telegram",
    "kind": "command",
    "profile": "default",
    "lifespan": "x",
    "trace": "x",
    "sender_id": "operator",
    "once": "x",
    "answers": "x",
    "message_id": "x",
    "context": {"event": "issues"},
    "media": [{"kind": "image", "url": "file:///etc/passwd"}],
    "is_active": False,
    "message": {"text": "hi", "session_id": "cli:local", "channel": "cli"},
}


async def test_a_body_with_fields_of_messages_names_nothing(workshop: Workshop) -> None:
    seen: list[ChannelMessage] = []

    def build_prompt(message: ChannelMessage) -> str:
        seen.append(message)
        return message.content

    hooks = {"open": {**WEBHOOKS["open"], "profile": "quiet"}}
    async with served(workshop, {**SETTINGS, "webhooks": hooks}, build_prompt=build_prompt) as door:
        path = "/hooks/open?session_id=cli:local&channel=cli&profile=default"
        came = await door.post(path, HOSTILE, headers={**bearer(), "x-bub-session": "cli:local"})
        assert came.json()["replies"] == [{"kind": "normal", "content": "quiet http:hook.open:main hi"}]
    [message] = seen
    assert (message.channel, message.chat_id, message.kind) == ("http", "hook.open:main", "normal")
    assert (message.sender_id, message.output_channel, message.once, message.trace) == ("ada", "", "", "")
    assert (message.media, dict(message.context), message.is_active) == ((), {"webhook": "open"}, True)
    assert message.message_id != "x"


NAMES = [
    "cli:local",
    "../../etc",
    "a/b",
    "a:b",
    ":",
    "",
    " ",
    "\x00",
    "a\nb",
    "\u202e",
    "ÅNGSTRÖM",
    "x" * 5000,
    "hook.other:main",
    "main~1234",
    "~",
    ".",
    "..",
    "-",
]


async def test_a_session_named_by_a_stranger_stays_below_its_webhook(workshop: Workshop) -> None:
    hooks = {"open": {**WEBHOOKS["open"], "session": "{s}"}}
    settings = {**SETTINGS, "webhooks": hooks}
    async with served(workshop, settings, run_model=lambda session_id: session_id) as door:
        for name in NAMES:
            came = await door.post("/hooks/open", {"message": {"text": "hi"}, "s": name}, headers=bearer())
            [reply] = came.json()["replies"]
            channel, owner, rest = reply["content"].split(":")
            assert (channel, owner) == ("http", "hook.open")
            assert rest.isascii() and rest.isprintable() and not set("/\\ ") & set(rest)
            assert 0 < len(rest) <= 64
            assert rest not in (".", "..")


def test_no_two_texts_share_a_session_and_no_client_can_write_one_of_a_text() -> None:
    made = [session_name(name) for name in [*NAMES, "a-b", "plain", "a.b"]]
    assert len(set(made)) == len(made)
    assert not any(is_session_name(one) for one in made if "~" in one)
    assert session_name("plain") == "plain"


def test_no_client_reaches_a_session_of_another_one_or_of_a_webhook() -> None:
    ids = ["ada", "hook", "a-b", "a_b"]
    assert all(map(is_id, ids))
    for name in ("hook.x", "ada:x", "", "A", "é", "x" * 33, "a/b", "a.b", "a b", "ada\n"):
        assert not is_id(name)
    for name in (name for name in NAMES if name not in ("ÅNGSTRÖM",)):
        assert not is_session_name(name)
    chats = {chat_of_client(Client(one, (), False), name) for one in ids for name in ("ada", "x", "hook.x")}
    assert len(chats) == 12
    assert not any(chat.startswith("hook.") for chat in chats)


def test_a_message_is_let_in_only_for_the_profiles_of_its_client() -> None:
    said = {"http": {"clients": {"ada": {"token": TOKEN, "profiles": ["default"]}}, "webhooks": WEBHOOKS}}
    settings = HttpSettings.of(SimpleNamespace(settings=said))
    asked = [("ada:x", "default"), ("ada:x", "quiet"), ("ada:x", ""), ("bob:x", "default"), ("", ""), ("ada", "")]
    assert [may_ask(settings, *one) for one in asked] == [True, False, False, False, False, False]
    hooks = [("hook.github:x", "quiet"), ("hook.github:x", "default"), ("hook.alarm:x", ""), ("hook.:x", "")]
    assert [may_ask(settings, *one) for one in hooks] == [True, False, True, False]


def test_every_token_is_compared_however_early_one_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr("hmac.compare_digest", compare)
    clients = Clients({name: ClientSettings(token=f"{name}-0123456789abcdef") for name in "abc"})
    assert clients.find("Bearer a-0123456789abcdef") is not None
    assert clients.find("nothing") is None
    assert len(compared) == 6
    assert {len(one) for pair in compared for one in pair} == {32}


# Ways around the route


AROUND = [
    ("GET", "/hooks/open", 405),
    ("PUT", "/hooks/open", 405),
    ("DELETE", "/hooks/open", 405),
    ("PROPFIND", "/hooks/open", 405),
    ("HEAD", "/hooks/open", 405),
    ("POST", "/hooks/nothing", 404),
    ("POST", "/hooks", 404),
    ("POST", "/hooks/", 404),
    ("POST", "/hooks/open/x", 404),
    ("POST", "/hooks/../hooks/open/", 404),
    ("POST", "/hooks/%2e%2e/hooks/open", 404),
    ("POST", "/hooks/open%00", 404),
    ("POST", "/hooks/OPEN", 404),
    ("POST", "//hooks/open", 404),
    ("POST", "/", 404),
    ("GET", "/metrics", 404),
    ("GET", "/docs", 404),
]


async def test_other_paths_and_methods_lead_nowhere(workshop: Workshop) -> None:
    async with served(workshop, run_model=never) as door:
        for method, path, status in AROUND:
            head = f"{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {TOKEN}\r\n"
            came = await door.raw(head.encode() + b"content-length: %d\r\n\r\n" % len(BODY) + BODY)
            assert came.startswith(b"HTTP/1.1 %d " % status), (path, came)


async def test_a_page_may_not_ask_even_with_a_token(workshop: Workshop) -> None:
    async with served(workshop, run_model=never) as door:
        headers = {**bearer(), "origin": "https://evil.example"}
        came = await door.post("/hooks/open", content=BODY, headers=headers)
        preflight = await door.post("/hooks/open", method="OPTIONS", headers={"origin": "https://evil.example"})
    assert came.status_code == 403
    assert preflight.status_code == 405
    assert "access-control-allow-origin" not in {**came.headers, **preflight.headers}


# Too much, too slow, too often


async def test_a_large_body_is_refused_however_it_comes(workshop: Workshop) -> None:
    async with served(workshop, {**SETTINGS, "most_bytes": 2048}, run_model=never) as door:
        head = f"POST /hooks/open HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n".encode()
        told = await door.raw(head + b"content-length: 5000000\r\n\r\n" + b"x" * 5_000_000)
        chunk = b"%x\r\n%s\r\n" % (65_536, b"x" * 65_536)
        chunked = await door.raw(head + b"transfer-encoding: chunked\r\n\r\n" + chunk * 40 + b"0\r\n\r\n")
        endless = await door.raw(head + b"content-length: 99999999999999999999\r\n\r\nx")
    assert [came[:13] for came in (told, chunked, endless)] == [b"HTTP/1.1 413 "] * 3


async def test_a_body_that_does_not_come_is_given_up(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bub_plugins.http.body.PATIENCE", 0.1)
    async with served(workshop, run_model=never) as door:
        head = f"POST /hooks/open HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: 9\r\n\r\n"
        async with await trio.open_tcp_stream(*door.address) as stream:
            await stream.send_all(head.encode() + b"{")
            with trio.fail_after(10):
                assert (await stream.receive_some()).startswith(b"HTTP/1.1 408 ")


async def test_a_webhook_that_a_reload_takes_away_while_a_body_comes_is_not_there(workshop: Workshop) -> None:
    async with served(workshop, run_model=never) as door:
        head = "POST /hooks/alarm HTTP/1.1\r\nhost: x\r\n" + "".join(
            f"{name}: {value}\r\n" for name, value in signed(BODY).items()
        )
        async with await trio.open_tcp_stream(*door.address) as stream:
            await stream.send_all(f"{head}content-length: {len(BODY)}\r\n\r\n".encode() + BODY[:5])
            await trio.testing.wait_all_tasks_blocked(0.05)  # the head has been read
            webhooks = {name: hook for name, hook in WEBHOOKS.items() if name != "alarm"}
            settings = {"http": {**SETTINGS, "webhooks": webhooks}}
            door.channel.reload(SimpleNamespace(settings=settings, profiles=door.framework.profiles))
            await stream.send_all(BODY[5:])
            with trio.fail_after(10):
                said = await stream.receive_some()
        assert said.startswith(b"HTTP/1.1 404 "), said


async def test_who_asks_too_often_waits_and_nobody_else_does(workshop: Workshop) -> None:
    hooks: dict[str, Any] = {name: dict(hook) for name, hook in WEBHOOKS.items()}
    hooks["alarm"]["rate"] = {"per_minute": 1, "burst": 2}
    clients = {"ada": {"token": TOKEN, "rate": {"per_minute": 6, "burst": 1}}, "bob": {"token": OTHER_TOKEN}}
    hooks["open"]["clients"] = ["ada", "bob"]
    settings = {**SETTINGS, "webhooks": hooks, "clients": clients}
    async with served(workshop, settings, run_model=lambda prompt: prompt) as door:

        async def alarm(number: int, **how: Any) -> int:
            body = json.dumps({"message": {"text": str(number)}}).encode()
            came = await door.post("/hooks/alarm", content=body, headers=signed(body, **how))
            if came.status_code == 429:
                assert 1 <= int(came.headers["retry-after"]) <= 60
            return came.status_code

        wrong = [await alarm(9, secret="wrong-0123456789abcdef") for _ in range(5)]
        assert wrong == [401] * 5  # which costs the sender nothing
        assert [await alarm(number) for number in range(3)] == [200, 200, 429]
        assert [(await door.ask("a")).status_code for _ in range(2)] == [200, 429]
        assert (await door.ask("b", token=OTHER_TOKEN)).status_code == 200


async def test_requests_that_wait_are_bounded_and_one_more_is_kept_all_the_same(workshop: Workshop) -> None:
    go = trio.Event()

    async def run_model(prompt: str) -> str:
        await go.wait()
        return prompt

    hooks = {"open": {**WEBHOOKS["open"], "session": "{s}"}}
    settings = {**SETTINGS, "waiting": 1, "webhooks": hooks}
    async with served(workshop, settings, run_model=run_model) as door, trio.open_nursery() as nursery:
        found: list[int] = []

        async def ask(number: int) -> None:
            said = {"message": {"text": "hi"}, "s": str(number)}
            found.append((await door.post("/hooks/open", said, headers=bearer())).status_code)

        nursery.start_soon(ask, 1)
        while door.channel._serving.door.askers.has_room:
            await trio.lowlevel.checkpoint()
        await ask(2)
        headers = {**bearer(), "accept": "text/event-stream"}
        said = {"message": {"text": "hi"}, "s": "3"}
        assert (await door.post("/hooks/open", said, headers=headers)).status_code == 503
        go.set()
    assert found == [202, 200]


async def test_a_stream_that_nobody_reads_costs_bounded_memory(workshop: Workshop) -> None:
    from bub.streaming import StreamEvent
    from bub_plugins.http.asking import Asker

    asker = Asker(ChannelMessage())
    for number in range(20_000):
        asker.tell(StreamEvent.text("ab"))
        if number % 3 == 0:
            asker.tell(StreamEvent("tool_call", {"id": str(number)}))
    assert len(asker._events) < 1_001
    text = "".join(str(one.data["delta"]) for one in asker._events if one.kind == "text")
    assert text == "ab" * 20_000


# What a turn from here may do


async def test_a_comma_command_is_asked_like_a_models_call_and_only_the_operator_can_say_yes(
    workshop: Workshop,
) -> None:
    ran: list[str] = []

    @tool
    def touch(name: str) -> str:
        """Touch something."""
        ran.append(name)
        return f"touched {name}"

    tools = PROFILES.replace("[http, office]", "[http, office], tools: {allow: [touch], ask: [touch]}")
    mailbox = Mailbox(None, workshop.folder)
    settings = {**SETTINGS, "webhooks": {"open": {**WEBHOOKS["open"], "answer_within": "50ms"}}}
    async with served(
        workshop,
        settings,
        mailbox=mailbox,
        profiles=tools,
        provide_tools=lambda: [touch],
        run_model=None,
        build_prompt=None,
    ) as door:
        came = await door.ask(",touch name=x")
        assert came.status_code == 202, came.text
        with trio.fail_after(10):
            while not (asked := await mailbox.open_questions()):
                await trio.lowlevel.checkpoint()
        assert (asked[0].approval.tool, ran) == ("touch", [])
        for by in ("ada", "hook.open", "operator", ""):
            taken = await door.manager.answer(asked[0].id, True, channel="http", by=by)
            assert not taken.counts
        await mailbox.answer(asked[0].id, False, "operator")
        await door.manager._approvals.look()
        await door.manager.settled()
    assert ran == []


async def test_what_fails_inside_tells_a_stranger_nothing(workshop: Workshop, log: list[str]) -> None:
    def run_model() -> str:
        raise RuntimeError(f"/home/ada {SECRET}")

    async with served(workshop, run_model=run_model) as door:
        came = await door.ask("hi")
        [reply] = came.json()["replies"]
        assert (came.status_code, reply["kind"]) == (200, "error")
        door.channel._serving.door.askers.keep = None
        broken = await door.ask("hi")
    assert broken.status_code == 500
    assert "/home" not in came.text + broken.text
    assert "NoneType" not in broken.text


async def test_nothing_secret_is_in_the_log(
    workshop: Workshop, log: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    async with served(workshop) as door:
        await door.ask("hi")
        await door.post("/hooks/open?token=" + TOKEN, content=BODY, headers=bearer("wrong-0123456789abcdef"))
        await door.post("/hooks/alarm", content=BODY, headers=signed(BODY))
    said = "".join(log) + "".join(capfd.readouterr())
    assert TOKEN not in said and SECRET not in said and "wrong-0123456789abcdef" not in said


async def test_slow_strangers_leave_room_for_clients(workshop: Workshop) -> None:
    async with served(workshop, {**SETTINGS, "connections": 8}, run_model=lambda prompt: prompt) as door:
        strangers = [await trio.open_tcp_stream(*door.address) for _ in range(30)]
        for stream in strangers:
            try:
                await stream.send_all(b"POST /hooks/open HTTP/1.1\r\nx-a: ")
            except trio.BrokenResourceError:
                continue
        assert (await door.ask("hi")).status_code == 200
        for stream in strangers:
            await trio.aclose_forcefully(stream)
