"""Telegram, from a reply to what people see: replies, errors and media, in virtual time and with a real server."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from fakes.telegram import BotServer, group, serving_bots
from fakes.telegram_server import TOKEN, ApiError, units
from fakes.telegram_world import World, answer, asked, data_url, picture, player
from telegram.error import NetworkError, TimedOut

from bub.channels import ChannelMessage, TryLaterError, UndeliverableError
from bub.streaming import StreamEvent
from bub_plugins.telegram.channel import TelegramChannel
from bub_plugins.telegram.limits import ChatAddress
from bub_plugins.telegram.lost import KnownMessages
from bub_plugins.telegram.markup import LONGEST_TEXT
from bub_plugins.telegram.request import open_bot
from bub_plugins.telegram.sending import Sender
from bub_plugins.telegram.settings import TelegramSettings

pytestmark = pytest.mark.filterwarnings(  # the library warns of its own use of what it will change
    "ignore:.*`retry_after` will be of type:DeprecationWarning"
)


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., None]:
    """Run a test in virtual time, with a world of its own."""
    return player(tmp_path)


# Replies.


def test_C31_an_answer_is_sent_to_its_chat(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        await here.sender.send(here.reply("It is **ready**."))
        assert here.said() == ["It is ready."]
        assert here.messages()[0]["entities"] == [{"type": "bold", "offset": 6, "length": 5}]

    play(test)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"message": "hello", "more": 1}', ["hello"]),
        ("42", ["42"]),
        ("true", ["true"]),
        ("null", ["null"]),
        ("[1]", ["[1]"]),
        ('"q"', ['"q"']),
        ('{"a": 1}', ['{"a": 1}']),
        ("{broken", ["{broken"]),
        ("  \n", []),
        ('{"message": " "}', []),
    ],
)
def test_C32_content_that_is_json_is_unwrapped_or_sent_as_it_is(
    play: Callable[..., None], content: str, said: list[str]
) -> None:
    async def test(here: World) -> None:
        await here.sender.send(here.reply(content))
        assert here.said() == said

    play(test)


def test_C32_a_long_answer_is_sent_in_parts_and_in_order(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        paragraphs = [f"{number}: " + "word " * 150 for number in range(20)]
        await here.sender.send(here.reply("\n\n".join(paragraphs)))
        assert len(here.said()) == 4
        assert all(units(text) <= LONGEST_TEXT for text in here.said())
        assert "\n\n".join(here.said()).split() == "\n\n".join(paragraphs).split()

    play(test)


@pytest.mark.parametrize("kind", ["command", "error", "denied"])
def test_what_bub_itself_says_is_plain(play: Callable[..., None], kind: str) -> None:
    async def test(here: World) -> None:
        await here.sender.send(here.reply("a *b* `c`", kind=kind))
        assert here.said() == ["a *b* `c`"]
        assert "entities" not in here.messages()[0]

    play(test)


def test_styles_that_telegram_refuses_are_left_out(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.fail("sendMessage", ApiError(400, "Bad Request: can't parse entities: something"))
        await here.sender.send(here.reply("a **b**"))
        assert here.said() == ["a b"]

    play(test)


@pytest.mark.parametrize("why", ["can't parse entities: unknown", "MEDIA_CAPTION_INVALID", "wrong HTTP URL"])
def test_whatever_telegram_says_against_a_formatted_text_it_goes_out_plain(play: Callable[..., None], why: str) -> None:
    async def test(here: World) -> None:
        here.fail("sendMessage", ApiError(400, why))
        await here.sender.send(here.reply("**bold**"))
        assert here.said() == ["bold"]
        assert [one.get("entities") for one in here.messages()] == [None]

    play(test)


def test_in_a_group_the_first_part_answers_who_asked(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        await here.sender.send(here.reply("word " * 1500, chat_id="-100", answers=str(here.asked_there)))
        first, second = here.messages(-100)
        assert first["reply_to_message"]["message_id"] == here.asked_there
        assert "reply_to_message" not in second
        await here.sender.send(here.reply("to whom?", chat_id="-100", answers="999"))  # it was deleted
        await here.sender.send(here.reply("hello"))
        assert "reply_to_message" not in here.messages(7)[0]

    play(test)


def test_a_topic_is_answered_in_it(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        await here.sender.send(here.reply("here", chat_id="-200:5", answers=""))
        assert here.messages(-200)[0]["message_thread_id"] == 5

    play(test)


# Errors.


def test_a_chat_that_cannot_be_written_to_is_never_tried_again(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.state.db.execute("UPDATE chats SET status = 'blocked' WHERE id = 7")
        with pytest.raises(UndeliverableError, match="bot was blocked by the user"):
            await here.sender.send(here.reply("hello"))
        with pytest.raises(UndeliverableError, match=r"(?i)chat not found"):
            await here.sender.send(here.reply("hello", chat_id="12345"))

    play(test)


def test_a_short_pause_is_waited_for_and_a_long_one_is_said(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.fail("sendMessage", ApiError(429, "Too Many Requests", retry_after=2))
        began = trio.current_time()
        await here.sender.send(here.reply("hello"))
        assert trio.current_time() - began > 1.99
        here.fail("sendMessage", ApiError(429, "Too Many Requests", retry_after=40))
        with pytest.raises(TryLaterError) as failed:
            await here.sender.send(here.reply("again"))
        assert failed.value.seconds == 40
        with pytest.raises(TryLaterError):  # and meanwhile nothing is even called
            await here.sender.send(here.reply("third"))
        assert len(here.called("sendMessage")) == 3
        await here.sender.send(here.reply("else", chat_id="-100", answers=""))
        await trio.sleep(40)
        await here.sender.send(here.reply("again"))
        assert here.said() == ["hello", "again"]

    play(test)


def test_after_an_error_only_the_parts_that_are_missing_are_sent(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        reply = here.reply("\n\n".join("word " * 700 for _ in range(3)))
        await here.sender.send(here.reply("before"))
        first = len(here.called("sendMessage"))
        here.request.faults["sendMessage"] = deque([None, NetworkError("gone"), TimedOut("slow")])
        for error in (NetworkError, TimedOut):
            with pytest.raises(error):
                await here.sender.send(reply)
        await here.sender.send(reply)
        assert len(here.said()) == 1 + 3
        assert len(here.called("sendMessage")) - first == 3 + 2
        await here.sender.send(reply)  # the same once more is another reply
        assert len(here.said()) == 1 + 6

    play(test)


def test_a_group_that_becomes_a_larger_one_is_followed(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.state.meet(group(-1001234))
        here.fail("sendMessage", ApiError(400, "Bad Request: group chat was upgraded", migrate_to_chat_id=-1001234))
        await here.sender.send(here.reply("hello", chat_id="-100", answers=""))
        await here.sender.send(here.reply("more", chat_id="-100", answers=""))
        assert here.said(-1001234) == ["hello", "more"]
        assert here.said(-100) == []

    play(test)


@pytest.mark.parametrize(
    ("kind", "mime_type", "method"),
    [
        ("image", "image/png", "sendPhoto"),
        ("image", "image/gif", "sendAnimation"),
        ("image", "image/svg+xml", "sendDocument"),
        ("audio", "audio/mpeg", "sendAudio"),
        ("audio", "audio/ogg", "sendVoice"),
        ("video", "video/mp4", "sendVideo"),
        ("document", "application/pdf", "sendDocument"),
        ("sculpture", "", "sendDocument"),
    ],
)
def test_media_are_sent_as_what_they_are(play: Callable[..., None], kind: str, mime_type: str, method: str) -> None:
    async def test(here: World) -> None:
        item = {"kind": kind, "mime_type": mime_type, "url": data_url(b"data", mime_type)}
        await here.sender.send(here.reply("look: **this**", media=[item]))
        assert [name for _, name, _ in here.request.calls] == [method]
        assert here.said() == ["look: this"]
        assert here.messages()[0]["caption_entities"][0]["type"] == "bold"

    play(test)


def test_a_file_is_sent_by_its_path(play: Callable[..., None], tmp_path: Path) -> None:
    async def test(here: World) -> None:
        (tmp_path / "report.txt").write_text("all is well")
        await here.sender.send(here.reply(media=[{"kind": "document", "path": str(tmp_path / "report.txt")}]))
        assert here.messages()[0]["document"]["file_name"] == "report.txt"
        assert here.state.rows("SELECT data FROM files") == [(b"all is well",)]

    play(test)


def test_pictures_are_sent_as_an_album_and_other_things_by_themselves(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        note = {"kind": "document", "mime_type": "text/plain", "name": "n.txt", "url": data_url(b"n", "text/plain")}
        pictures = [picture(f"{number}.png") for number in range(12)]
        await here.sender.send(here.reply("look", media=[*pictures, note, picture()]))
        names = [name for _, name, _ in here.request.calls]
        assert names == ["sendMediaGroup", "sendMediaGroup", "sendDocument", "sendPhoto"]
        assert here.said() == ["look"] + [""] * 13

    play(test)


def test_a_text_too_long_for_a_caption_goes_before(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        await here.sender.send(here.reply("word " * 300, media=[picture()]))
        assert [name for _, name, _ in here.request.calls] == ["sendMessage", "sendPhoto"]

    play(test)


def test_a_draft_is_completed_by_the_text_and_media_follow(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("text", delta="look")
        await trio.sleep(3)
        await here.sender.send(here.reply("look here", media=[picture()], draft=here.kept[0][1]))
        assert here.said() == ["look here", ""]
        here.tell("text", delta=" ", message=here.inbound(message_id="77"))
        await trio.sleep(3)
        await here.sender.send(here.reply(media=[picture()], draft=here.kept[1][1], answers="77"))
        assert here.said() == ["look here", "", ""]

    play(test)


def test_media_that_telegram_refuses_are_sent_in_another_way(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.fail("sendMediaGroup", ApiError(400, "Bad Request: PHOTO_INVALID_DIMENSIONS"))
        here.fail("sendPhoto", ApiError(400, "Bad Request: PHOTO_INVALID_DIMENSIONS"))
        await here.sender.send(here.reply("look", media=[picture("a.png"), picture("b.png")]))
        assert [name for _, name, _ in here.request.calls] == [
            "sendMediaGroup",
            "sendPhoto",
            "sendDocument",
            "sendPhoto",
        ]
        assert here.said() == ["look", ""]

    play(test)


def test_of_media_that_cannot_be_sent_there_is_a_line(play: Callable[..., None], tmp_path: Path) -> None:
    async def test(here: World) -> None:
        elsewhere = {"kind": "image", "mime_type": "image/png", "name": "x.png", "url": "https://e.org/x.png"}
        here.fail("sendDocument", ApiError(413, "Request Entity Too Large"))
        large = {"kind": "document", "name": "big.zip", "url": data_url(b"much", "application/zip")}
        lost = {"kind": "image", "name": "lost.png", "path": str(tmp_path / "lost.png")}
        await here.sender.send(here.reply("look", media=[large]))
        await here.sender.send(here.reply("", media=[elsewhere]))
        await here.sender.send(here.reply("and", media=[lost, {"kind": "image", "url": "data:broken"}, {}]))
        first, second, third, fourth, fifth, sixth, *rest = here.said()
        assert (first, second) == ("look", "(big.zip could not be sent: Request Entity Too Large)")
        assert third == "x.png: https://e.org/x.png"
        assert fourth == "and"
        assert fifth == "(lost.png could not be sent: No such file or directory)"
        assert sixth == "(image could not be sent: its `data:` address has no data)"
        assert rest == ["(file could not be sent: it has neither a `url` nor a `path`)"]

    play(test)


# Telegram in a process of its own.


@asynccontextmanager
async def connected(server: BotServer, **options: Any) -> AsyncIterator[Sender]:
    """A sender whose bot speaks to a server over HTTP."""
    drafts = options.pop("drafts", {})

    class Desk:
        async def keep_draft(self, message: ChannelMessage, draft: str) -> None:
            drafts[message.message_id] = draft

        def has_replies(self, message: ChannelMessage) -> bool:
            return False

        async def replies_sent(self, message: ChannelMessage) -> None: ...

    async with (
        open_bot(TelegramSettings(token=TOKEN, base_url=server.address)) as (bot, _),
        trio.open_nursery() as nursery,
    ):
        yield Sender(
            bot,
            stream=True,
            start_soon=nursery.start_soon,
            desk=Desk(),
            known=KnownMessages({}, lambda *_: None),
            **options,
        )
        nursery.cancel_scope.cancel()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BotServer]:
    with serving_bots(tmp_path_factory.mktemp("telegram") / "state.db") as serving:
        yield serving


@pytest.mark.anyio
async def test_an_answer_grows_in_one_message(server: BotServer) -> None:
    drafts: dict[str, str] = {}
    message = asked(server, 101)
    async with connected(server, first_after=0.0, drafts=drafts) as sender:
        sender.on_event(StreamEvent.text("It **grows"), message)
        await server.until(lambda: server.said(101) == ["It **grows"])
        sender.on_event(StreamEvent.text("**."), message)
        await sender.turn_over(message)
        await sender.send(answer(message, "It **grows**.", draft=drafts[message.message_id]))
    [seen] = server.messages(101)[1:]
    assert [form["text"] for form in seen["history"]] == ["…", "It **grows", "It grows."]
    assert seen["message"]["entities"] == [{"type": "bold", "offset": 3, "length": 5}]


@pytest.mark.anyio
async def test_a_reply_waits_for_a_connection_that_is_about_to_come(server: BotServer) -> None:
    async def never(message: Any) -> None:
        raise AssertionError(message)

    channel = TelegramChannel(TelegramSettings(token=TOKEN, base_url=server.address), never)
    message = asked(server, 109)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(channel.connect)
        await channel.send(answer(message, "here it is"))
        nursery.cancel_scope.cancel()
    assert server.said(109) == ["here it is"]


@pytest.mark.anyio
async def test_what_was_cut_off_when_it_had_arrived_is_not_repeated(server: BotServer) -> None:
    message = asked(server, 102)
    reply = answer(message, "first " * 600 + "\n\n" + "second " * 500)
    async with connected(server) as sender:
        sender.note(ChatAddress.of("102"), int(message.message_id))
        server.fault("sendMessage", cut="after")  # it is there, but we never hear of it
        with pytest.raises(NetworkError):
            await sender.send(reply)
        await sender.send(reply)
    assert [text.split()[0] for text in server.said(102)] == ["first", "second"]


@pytest.mark.anyio
async def test_files_arrive_whole(server: BotServer) -> None:
    message = asked(server, 103)
    data = bytes(range(256)) * 1000
    item = {
        "kind": "document",
        "mime_type": "application/zip",
        "name": "a.zip",
        "url": data_url(data, "application/zip"),
    }
    async with connected(server) as sender:
        await sender.send(answer(message, "look", media=[item]))
        await sender.send(answer(message, "", media=[picture("1.png"), picture("2.png")]))
    first, second, third = (one["message"] for one in server.messages(103)[1:])
    assert (first["caption"], first["document"]["file_size"]) == ("look", len(data))
    assert [one["photo"][0]["file_size"] for one in (second, third)] == [8, 8]


@pytest.mark.anyio
async def test_the_limits_of_telegram_are_not_run_into(server: BotServer) -> None:
    messages = [asked(server, person) for person in range(110, 122)]
    server.limits(chat_interval=1.0, per_second=30)
    before = len(server.calls("sendMessage"))
    try:
        async with connected(server) as sender, trio.open_nursery() as nursery:
            for message in messages:
                nursery.start_soon(sender.send, answer(message, "word " * 1200))
    finally:
        server.limits()
    assert len(server.calls("sendMessage")) - before == 2 * len(messages)  # none was refused and sent again


@pytest.mark.anyio
async def test_flood_control_and_blocked_chats_over_http(server: BotServer) -> None:
    message = asked(server, 104)
    async with connected(server) as sender:
        server.fault("sendMessage", status=429, description="Too Many Requests", parameters={"retry_after": 30})
        with pytest.raises(TryLaterError) as failed:
            await sender.send(answer(message, "hello"))
        assert failed.value.seconds == 30
        other = asked(server, 105)
        server.control("chat", {"id": 105, "status": "blocked"})
        with pytest.raises(UndeliverableError, match="blocked by the user"):
            await sender.send(answer(other, "hello"))
        server.fault("sendMessage", status=502, body="<html>")
        with pytest.raises(NetworkError):
            await sender.send(answer(asked(server, 106), "hello"))
