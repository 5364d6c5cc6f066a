"""Telegram on a bad day: it answers late, cuts connections, refuses, and says again what it had said before.

The Bot API server is a process of its own; the channel, the inbox and the outbox are the real ones.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from errno import ENOSPC
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from re import fullmatch
from time import monotonic
from typing import Any
from urllib.parse import urlencode

import pytest
import trio
from fakes.gateway import FILES, PATIENCE, PIPELINE, gateway
from fakes.line import opened
from fakes.telegram import TOKEN, BotServer, serving_bots
from fakes.toys import Toy, Workshop
from telegram.error import NetworkError
from trio.testing import MockClock

from bub.channels import Channel, ChannelManager, ChannelMessage
from bub.streaming import AsyncStreamEvents, StreamEvent
from bub_plugins.telegram import TelegramChannel, TelegramSettings
from bub_plugins.telegram.limits import ChatAddress
from bub_plugins.telegram.lost import KnownMessages, Lost
from bub_plugins.telegram.request import open_bot
from bub_plugins.telegram.sending import Sender

pytestmark = pytest.mark.anyio


def quickly(rate: float = 20) -> Any:
    """Lets the clock of a test run faster, for what is about long pauses."""
    return pytest.mark.parametrize(
        "anyio_backend", [pytest.param(("trio", {"clock": MockClock(rate=rate)}), id="fast")]
    )


@pytest.fixture(scope="module")
def bot_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BotServer]:
    with serving_bots(tmp_path_factory.mktemp("bots") / "state.db") as server:
        yield server


@pytest.fixture
def server(bot_server: BotServer) -> BotServer:
    bot_server.reset()
    return bot_server


# The server itself.


def call(server: BotServer, method: str, **params: Any) -> tuple[int, Any]:
    """Call a method as any client would; the status of the answer and its result, or 0 and None."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request("GET", f"/bot{TOKEN}/{method}?{urlencode(params)}")
        answer = connection.getresponse()
        return answer.status, json.load(answer).get("result")
    except (HTTPException, OSError):
        return 0, None
    finally:
        connection.close()


def test_the_server_of_the_tests_fails_as_it_is_told(server: BotServer) -> None:
    server.say("hi")
    server.fault("sendMessage", cut="before")
    server.fault("sendMessage", cut="after")
    server.fault("sendMessage", status=401, description="Unauthorized")
    server.fault("sendMessage", status=400, description="can't parse entities", given="entities")
    texts = ["lost", "cut", "refused", "plain", "styled"]
    entities = '[{"type": "bold", "offset": 0, "length": 1}]'
    given = [{"text": text} | ({"entities": entities} if text == "styled" else {}) for text in texts]
    assert [call(server, "sendMessage", chat_id=7, **each)[0] for each in given] == [0, 0, 401, 200, 400]
    assert server.said(7) == ["cut", "plain"]
    server.fault("sendMessage", late=0.3)
    began = monotonic()
    assert call(server, "sendMessage", chat_id=7, text="late")[0] == 200
    assert monotonic() - began >= 0.3


def test_the_server_of_the_tests_has_bad_weather_and_says_again_what_was_confirmed(server: BotServer) -> None:
    update = server.say("hi")
    server.weather(0.5, seed=1, sendMessage=[{"status": 500}, {"cut": "after"}])
    came = [call(server, "sendMessage", chat_id=7, text=str(number))[0] for number in range(40)]
    assert {0, 200, 500} == set(came)
    assert len(server.said(7)) == 40 - came.count(500)
    server.weather(0)
    after = update["update_id"] + 1
    assert call(server, "getUpdates", offset=after) == (200, [])
    assert server.pending() == []
    server.redeliver(1)
    assert call(server, "getUpdates", offset=after) == (200, [update])


# Order.


@asynccontextmanager
async def answering(
    server: BotServer, workshop: Workshop, answer: Callable[[str], AsyncIterator[str]], **settings: Any
) -> AsyncIterator[ChannelManager]:
    """The channel beside its inbox and outbox, with a model that says what `answer` yields."""

    async def events(prompt: str) -> AsyncIterator[StreamEvent]:
        async for text in answer(prompt):
            yield StreamEvent.text(text)

    def provide_channels(message_handler: Callable[..., Any]) -> list[Channel]:
        given = {"token": TOKEN, "base_url": server.address, "allow_users": ["*"], **settings}
        return [TelegramChannel(TelegramSettings(**given), message_handler)]

    office = Toy(provide_channels=provide_channels, run_model_stream=lambda prompt: AsyncStreamEvents(events(prompt)))
    framework = workshop("extends: bub:default\nsettings: {gateway: {debounce: 100ms}}", office=office)
    async with opened(framework) as manager:
        yield manager


async def at_length(prompt: str) -> AsyncIterator[str]:
    """An answer that is made for three seconds, but for one to what is short."""
    word = prompt.split()[-1]
    yield f"about {word}"
    if word != "short":
        for _ in range(3):
            await trio.sleep(1)
            yield " more"


BROKEN = {"a server error": {"status": 502}, "a cut connection": {"cut": "before"}, "a lost answer": {"cut": "after"}}


@quickly()
@pytest.mark.parametrize("stream", [True, False], ids=["streams", "at once"])
@pytest.mark.parametrize("do", BROKEN.values(), ids=BROKEN.keys())
async def test_C27_no_answer_overtakes_one_that_was_put_off(
    do: dict[str, Any], stream: bool, server: BotServer, workshop: Workshop
) -> None:
    server.fault("sendMessage", times=3, **do)
    async with answering(server, workshop, at_length, stream=stream) as manager:
        server.say("short")
        await server.until(lambda: len(server.calls("sendMessage")) == 3 or server.said(7), seconds=100)
        server.say("long")
        await server.until(lambda: "about long more more more" in server.said(7), seconds=500)
        await manager.settled()
    assert list(dict.fromkeys(server.said(7))) == ["about short", "about long more more more"]


@quickly()
@pytest.mark.parametrize(("said", "left"), [("", []), ("so far", ["so far"])], ids=["nothing", "a beginning"])
async def test_of_a_turn_that_is_ended_stays_what_was_said(
    said: str, left: list[str], server: BotServer, workshop: Workshop
) -> None:
    async def without_end(prompt: str) -> AsyncIterator[str]:
        if ",quit" in prompt:
            yield "bye"
        else:
            yield said
            await trio.sleep_forever()

    async with answering(server, workshop, without_end) as manager:
        server.say("hi")
        await server.until(lambda: server.said(7) == [said or "…"], seconds=100)
        server.say(",quit")
        await server.until(lambda: server.said(7) == [*left, "bye"], seconds=100)
        await manager.settled()
    assert server.said(7) == [*left, "bye"]


@quickly()
async def test_a_disk_that_is_full_in_the_middle_leaves_what_was_said_and_an_apology_without_paths(
    server: BotServer, workshop: Workshop
) -> None:
    async def until_it_is_full(prompt: str) -> AsyncIterator[str]:
        yield "so far, so good"
        await trio.sleep(4)
        raise OSError(ENOSPC, "No space left on device", str(workshop.folder / "tapes.db"))

    async with answering(server, workshop, until_it_is_full):
        server.say("hi")
        await server.until(lambda: len(server.said(7)) == 2, seconds=500)
    said, apology = server.said(7)
    assert said == "so far, so good"
    assert fullmatch(r"Something went wrong while answering. \(error \w+\)", apology)


# Placeholders that nobody heard of.


class Desk:
    """Keeps drafts and notes as the disk does, for whoever comes after a crash."""

    def __init__(self) -> None:
        self.drafts: list[str] = []
        self.notes: dict[str, str] = {}

    async def keep_draft(self, message: ChannelMessage, draft: str) -> None:
        self.drafts.append(draft)

    def has_replies(self, message: ChannelMessage) -> bool:
        return False

    async def replies_sent(self, message: ChannelMessage) -> None: ...


@asynccontextmanager
async def a_sender(server: BotServer, desk: Desk) -> AsyncIterator[Sender]:
    settings = TelegramSettings(token=TOKEN, base_url=server.address)
    async with open_bot(settings) as (bot, _), trio.open_nursery() as nursery:
        known = KnownMessages(desk.notes, desk.notes.__setitem__)
        yield Sender(bot, stream=True, start_soon=nursery.start_soon, desk=desk, known=known, first_after=0)
        nursery.cancel_scope.cancel()


def asked(server: BotServer, draft: str = "") -> ChannelMessage:
    """What Ada asks."""
    number = str(server.say("hi")["message"]["message_id"])
    return ChannelMessage("telegram", "7", "hi", message_id=number, draft=draft)


def answer(message: ChannelMessage, content: str, draft: str) -> ChannelMessage:
    return ChannelMessage("telegram", "7", content, answers=message.message_id, draft=draft)


async def lose_a_placeholder(server: BotServer, sender: Sender, message: ChannelMessage) -> None:
    server.fault("sendMessage", cut="after")
    sender.note(ChatAddress.of("7"), int(message.message_id))
    sender.on_event(StreamEvent.text("so far"), message)
    await server.until(lambda: server.said(7) == ["…"])
    await sender.turn_over(message)


async def test_a_placeholder_whose_arrival_nobody_heard_of_becomes_the_answer(server: BotServer) -> None:
    desk, message = Desk(), asked(server)
    async with a_sender(server, desk) as sender:
        await lose_a_placeholder(server, sender, message)
        server.say("and another thing")
        await sender.send(answer(message, "so far, so good", desk.drafts[-1]))
    assert server.said(7) == ["so far, so good"]


async def test_so_does_one_that_a_process_left_that_was_killed(server: BotServer) -> None:
    before, after, message = Desk(), Desk(), asked(server)
    async with a_sender(server, before) as sender:
        await lose_a_placeholder(server, sender, message)
        del sender
    again = replace(message, draft=before.drafts[-1])
    async with a_sender(server, after) as sender:
        sender.on_event(StreamEvent.text("better"), again)
        await server.until(lambda: server.said(7) == ["better"])
        await sender.turn_over(again)
        await sender.send(answer(message, "better now", after.drafts[-1]))
    assert server.said(7) == ["better now"]
    assert len(server.calls("sendMessage")) == 1


async def test_it_goes_where_the_turn_has_nothing_to_say(server: BotServer) -> None:
    desk, message = Desk(), asked(server)
    async with a_sender(server, desk) as sender:
        await lose_a_placeholder(server, sender, message)
        await sender.send(answer(message, "", desk.drafts[-1]))
    assert server.said(7) == []


async def test_what_else_is_in_the_chat_is_left_alone(server: BotServer) -> None:
    desk = Desk()
    async with a_sender(server, desk) as sender:
        message = asked(server)
        await sender.send(answer(message, "an earlier answer", ""))
        server.fault("sendMessage", cut="before")
        sender.on_event(StreamEvent.text("so far"), message)
        await server.until(lambda: len(server.calls("sendMessage")) == 2)
        await sender.turn_over(message)
        server.say("and another thing")
        await sender.send(answer(message, "the answer", desk.drafts[-1]))
    texts = [one["message"]["text"] for one in server.messages(7)]
    assert texts == ["hi", "an earlier answer", "and another thing", "the answer"]


PARTS = ["first " * 600, "second " * 500]
"""A reply that takes two messages."""


@pytest.mark.parametrize("cut", [1, 2])
async def test_no_part_of_a_reply_is_said_again_by_the_process_behind_one_that_was_killed(
    server: BotServer, cut: int
) -> None:
    desk, message = Desk(), asked(server)
    reply = answer(message, "\n\n".join(PARTS), "")
    async with a_sender(server, desk) as before:
        before.note(ChatAddress.of("7"), int(message.message_id))
        if cut == 2:
            server.fault("sendMessage", late=0.01)
        server.fault("sendMessage", cut="after")
        with pytest.raises(NetworkError):
            await before.send(reply)
    server.say("are you there?")
    async with a_sender(server, desk) as after:
        await after.send(replace(reply, draft=desk.drafts[-1]))
    assert server.said(7) == [part.strip() for part in PARTS]
    assert len(server.calls("sendMessage")) == 2


async def test_no_text_is_said_again_for_the_media_behind_it(server: BotServer) -> None:
    desk, message = Desk(), asked(server)
    picture = {"kind": "image", "url": "data:image/png;base64,aGk="}
    reply = replace(answer(message, "see " * 500, ""), media=[picture, {"kind": "document", "url": "data:,hi"}])
    async with a_sender(server, desk) as before:
        before.note(ChatAddress.of("7"), int(message.message_id))
        server.fault("sendDocument", cut="before")
        with pytest.raises(NetworkError):
            await before.send(reply)
    async with a_sender(server, desk) as after:
        await after.send(replace(reply, draft=desk.drafts[-1]))
    assert [text.strip() for text in server.said(7) if text] == [("see " * 500).strip()]
    assert [len(server.calls(method)) for method in ("sendMessage", "sendPhoto", "sendDocument")] == [1, 2, 2]


async def test_the_first_message_of_a_new_process_is_found_and_what_earlier_ones_said_is_not_taken_for_it(
    server: BotServer,
) -> None:
    desk, (first, second) = Desk(), (asked(server), asked(server))
    async with a_sender(server, desk) as before:
        for message in (first, second):
            before.note(ChatAddress.of("7"), int(message.message_id))
        await before.send(answer(first, "the first answer", ""))
    async with a_sender(server, desk) as after:
        server.fault("sendMessage", cut="after")
        reply = answer(second, "the second answer", "")
        with pytest.raises(NetworkError):
            await after.send(reply)
        await after.send(reply)
    assert server.said(7) == ["the first answer", "the second answer"]


async def test_a_message_is_found_though_many_others_were_counted_before_it(server: BotServer) -> None:
    """A bot has one count for all people: what others write meanwhile stands between."""
    server.number_together()
    eve = {"id": 9, "is_bot": False, "first_name": "Eve"}
    desk, message = Desk(), asked(server)
    async with a_sender(server, desk) as sender:
        sender.note(ChatAddress.of("7"), int(message.message_id))
        for _ in range(50):
            sender.note(ChatAddress.of("9"), server.say("hi", user=eve)["message"]["message_id"])
        for _ in range(3):
            server.say("not heard of yet", user=eve)
        server.fault("sendMessage", cut="after")
        reply = answer(message, "the answer", "")
        with pytest.raises(NetworkError):
            await sender.send(reply)
        await sender.send(reply)
    assert server.said(7) == ["the answer"]


def test_a_message_that_is_known_is_never_a_lost_one() -> None:
    kept: dict[str, str] = {}
    known = KnownMessages({"7": "10", "-1001234567890": "4", "spoilt": "x"}, kept.__setitem__)
    assert known.lost("8") is None
    lost = known.lost("7")
    assert lost is not None
    for number in (11, 13, 9):
        known.note("7", number)
    assert known.candidates("7", lost) == [12, *range(14, 22)]
    known.note("8", 3)
    lost = known.lost("8")
    assert lost == Lost((3, 13))
    known.note("9", 20)
    expected = [*range(4, 12), *range(14, 20), *range(21, 29)]
    assert known.candidates("8", lost) == expected
    assert KnownMessages(kept, kept.__setitem__).candidates("8", lost) == expected
    assert known.lost("-1001234567890") == Lost((4,))


def test_what_was_sent_is_kept_together_with_what_it_is() -> None:
    """Else it would be known, and looked for elsewhere, if the process were killed in between."""
    kept: dict[str, str] = {}
    known = KnownMessages({"7": "10", "8": "30"}, kept.__setitem__)
    lost = known.lost("7")
    assert lost == Lost((10, 30))
    known.note_sent("7", 31)
    known.note("7", 32)
    known.note("8", 33)
    assert 31 not in known.candidates("7", lost)
    assert 31 in KnownMessages(kept, kept.__setitem__).candidates("7", lost)
    known.settle("7")
    assert 31 not in KnownMessages(kept, kept.__setitem__).candidates("7", lost)


def test_what_others_are_told_in_the_same_moment_stands_between() -> None:
    known = KnownMessages({"7": "10", "8": "9"}, {}.__setitem__)
    lost = known.lost("7")
    assert lost == Lost((10,))
    for number in range(11, 25):
        known.note("8", number)
    assert 25 in known.candidates("7", lost)


async def test_a_search_that_fails_goes_on_where_it_was(server: BotServer) -> None:
    desk, message = Desk(), asked(server)
    async with a_sender(server, desk) as sender:
        sender.note(ChatAddress.of("7"), int(message.message_id))
        for _ in range(3):
            server.say("and then")
        server.fault("sendMessage", cut="after")
        reply = answer(message, "the answer", "")
        server.fault("editMessageText", late=0.01)
        server.fault("editMessageText", status=502)
        for _ in range(2):
            with pytest.raises(NetworkError):
                await sender.send(reply)
        await sender.send(reply)
    edits = [call["params"] for call in server.calls("editMessageText")]
    assert not any("link_preview_options" in edit for edit in edits)  # it would take the preview away
    looked_at = [edit["message_id"] for edit in edits]
    assert (looked_at, server.said(7)) == (["2", "3", "3", "4", "5"], ["the answer"])


# Refusals.


def a_gateway_folder(folder: Path, server: BotServer, plugins: str) -> Path:
    """A folder whose gateway runs the channel, and whatever else is named."""
    telegram = f"telegram: {{token: '{TOKEN}', base_url: '{server.address}', allow_users: ['*']}}"
    files = {**FILES, "pipelines.yaml": PIPELINE.replace("[post, brain]", plugins)}
    for name, text in files.items():
        (folder / name).write_text(text.replace("settings: {", f"settings: {{{telegram}, "), encoding="utf-8")
    return folder


def test_a_token_that_is_refused_for_good_ends_the_gateway_with_exit_code_1(server: BotServer, tmp_path: Path) -> None:
    server.fault("getUpdates", status=401, description="Unauthorized")
    with gateway(a_gateway_folder(tmp_path, server, "[telegram, brain]"), ready=False) as running:
        server.say("hello")
        running.until(lambda: server.said(7))  # refused once, it goes on
        server.revoke()
        server.say("wake up")
        assert running.process.wait(PATIENCE) == 1
        assert "Telegram refuses the token of the bot (get one from @BotFather" in running.log.splitlines()[-1]


def test_beside_another_channel_health_says_that_one_is_refused(server: BotServer, tmp_path: Path) -> None:
    folder = a_gateway_folder(tmp_path, server, "[post, telegram, brain]")
    with gateway(folder, "--listen", "127.0.0.1:0") as running:
        assert running.health["status"] == "ok"
        running.until(server.polls)
        server.revoke()
        server.say("wake up")
        running.wait_for_log("channel.refused")
        health = running.until(lambda: running.health if running.health["status"] != "ok" else None)
        assert (health["status"], health["channels"]["telegram"]) == ("failing", "refused")
        running.say("are you there?")
        assert running.reply(1) == "one are you there?"


async def test_what_an_earlier_process_said_is_not_taken_for_lost(server: BotServer) -> None:
    first, second = asked(server), asked(server)
    async with a_sender(server, Desk()) as before:
        await before.send(answer(first, "the first answer", ""))
    async with a_sender(server, Desk()) as after:
        server.fault("sendMessage", cut="after")
        with pytest.raises(NetworkError):
            await after.send(answer(second, "the second answer", ""))
        await after.send(answer(second, "the second answer", ""))
    assert list(dict.fromkeys(server.said(7))) == ["the first answer", "the second answer"]
