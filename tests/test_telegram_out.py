"""The way out of the Telegram channel: what answers look like, how fast they come, and that nothing is said twice."""

from __future__ import annotations

import base64
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from fakes.telegram import ADA, BotServer, forum, group, private, serving_bots
from fakes.telegram_server import TOKEN, Api, ApiError, State, units
from hypothesis import given, settings
from hypothesis import strategies as st
from telegram import Bot
from telegram.error import NetworkError, TimedOut
from telegram.request import BaseRequest

from bub.channels import ChannelMessage, TryLaterError, UndeliverableError
from bub.streaming import StreamEvent
from bub_plugins.telegram.drafts import AT_ONCE, FIRST_AFTER
from bub_plugins.telegram.limits import ChatAddress, Pace
from bub_plugins.telegram.lost import KnownMessages
from bub_plugins.telegram.markup import LONGEST_TEXT, Styled, end_of, plain, render, split
from bub_plugins.telegram.request import open_bot
from bub_plugins.telegram.sending import Sender
from bub_plugins.telegram.settings import TelegramSettings

pytestmark = pytest.mark.filterwarnings(  # the library warns of its own use of what it will change
    "ignore:.*`retry_after` will be of type:DeprecationWarning"
)

PIECES = st.one_of(
    st.sampled_from(
        [
            *(
                "**",
                "*",
                "_",
                "`",
                "```",
                "```py\n",
                "~~~\n",
                "\n",
                "\n\n",
                "\r\n",
                "    ",
                "- ",
                "1. ",
                "- [x] ",
                "> ",
            ),
            *(
                "# ",
                "|",
                "||",
                "|---|---|\n",
                "[a](http://x)",
                "[b](c)",
                "<",
                "<b>",
                "</div>",
                "<https://x.y>",
                "$",
                "$$",
            ),
            *("~~", "~", "\\", "&lt;", "😀", "𐍈", "\ud83d", "word ", "ein Satz. ", "\ufdd0"),
        ]
    ),
    st.text(max_size=4),
)
MARKDOWN = st.lists(PIECES, max_size=40).map("".join)


def shown(styled: Styled) -> list[tuple[str, str]]:
    """Each entity: its type, and the text that it is over."""
    raw = styled.text.encode("utf-16-le")
    return [
        (one.type, raw[one.offset * 2 : (one.offset + one.length) * 2].decode("utf-16-le")) for one in styled.entities
    ]


def letters(*texts: str) -> str:
    return "".join("".join(texts).split())


def check_entities(styled: Styled) -> None:
    length = units(styled.text)
    ends: list[int] = []
    for one, (_, over) in zip(styled.entities, shown(styled), strict=True):  # `shown` fails within a character
        assert one.offset >= 0
        assert one.length > 0
        assert one.offset + one.length <= length
        assert over
        while ends and ends[-1] <= one.offset:
            ends.pop()
        assert not ends or one.offset + one.length <= ends[-1]
        ends.append(one.offset + one.length)


# What Markdown looks like.


def test_markdown_becomes_entities() -> None:
    styled = render("# Head\n\nHello **bold *both*** and `code`, [here](https://e.org/a_b).\n\n> quote\n\n- a\n  - b")
    assert styled.text == "Head\n\nHello bold both and code, here.\n\nquote\n\n• a\n  • b"
    assert ("bold", "bold both") in shown(styled)
    assert ("italic", "both") in shown(styled)
    assert ("code", "code") in shown(styled)
    assert ("text_link", "here") in shown(styled)
    assert ("blockquote", "quote") in shown(styled)


def test_a_fence_keeps_its_language_and_its_indentation() -> None:
    styled = render("```python\nif x:\n    y = a < b\n```")
    assert styled.text == "if x:\n    y = a < b"
    assert [(one.type, one.language) for one in styled.entities] == [("pre", "python")]


def test_offsets_count_as_utf_16() -> None:
    assert shown(render("😀 **𐍈 bold** é `x`")) == [("bold", "𐍈 bold"), ("code", "x")]


@pytest.mark.parametrize(
    "written",
    [
        *("List<T> and <div>", "<details>\nmore\n</details>", "a <b>c</b>", "set $HOME/$USER and $PATH"),
        *("a || b || c", "unclosed **bold and `code", "half a ||", "<!-- a -->", "[a]: http://x"),
        *("2*3*4", "10*2*3 = 60", "a*b*c", "2**3**4", "f(x)*g(y)*h(z)", "`a` 2*3*4"[4:], "(1+2)*3*(4)"),
    ],
)
def test_what_is_no_markdown_is_shown_as_it_was_written(written: str) -> None:
    assert render(written) == Styled(written)


def test_stars_style_words_and_multiply_numbers() -> None:
    written = "*2*3 is 2*3*4, **so** `2*3*4` *it* is, 这是**重点**内容 and **bold**s"
    assert render(written).text == "23 is 2*3*4, so 2*3*4 it is, 这是重点内容 and bolds"
    styled = [("italic", "2"), ("bold", "so"), ("code", "2*3*4"), ("italic", "it"), ("bold", "重点"), ("bold", "bold")]
    assert shown(render(written)) == styled


def test_markdown_that_would_take_long_is_shown_as_it_was_written() -> None:
    for written in ("> - " * 10_000, "*a* " * 50_000):
        assert render(written) == Styled(written.rstrip())


def test_a_table_is_shown_in_one_width() -> None:
    assert shown(render("| a | b |\n|---|---|\n| 1 | long |")) == [("pre", "a | b   \n--+-----\n1 | long")]


def test_a_link_that_telegram_would_refuse_is_only_text() -> None:
    assert render("[a](b.md) [c](javascript:d)") == Styled("a c")


@settings(max_examples=300, deadline=None)
@given(MARKDOWN)
def test_entities_lie_within_the_text_and_within_each_other(markdown: str) -> None:
    styled = render(markdown)
    check_entities(styled)
    assert bool(letters(styled.text)) == bool(letters(plain(markdown).text))


# Parts.


@settings(max_examples=300, deadline=None)
@given(MARKDOWN, st.integers(4, 60))
def test_splitting_loses_no_letter_and_breaks_no_character(markdown: str, longest: int) -> None:
    whole = render(markdown)
    parts = split(whole, longest)
    assert letters(*(part.text for part in parts)) == letters(whole.text)
    for part in parts:
        assert 0 < units(part.text) <= longest
        check_entities(part)
    # What is styled stays so: each letter that was in an entity is in one of the same type in its part.
    for kind in {one.type for one in whole.entities}:
        of_kind = [over for name, over in shown(whole) if name == kind]
        assert letters(*of_kind) == letters(*(over for part in parts for name, over in shown(part) if name == kind))


@settings(max_examples=100, deadline=None)
@given(MARKDOWN, st.integers(4, 60))
def test_the_end_of_a_text_fits(markdown: str, longest: int) -> None:
    whole = render(markdown)
    end = end_of(whole, longest)
    assert units(end.text) <= longest
    check_entities(end)
    assert end == whole or whole.text.endswith(end.text.removeprefix("…\n"))


def test_parts_end_with_paragraphs_then_lines_then_words() -> None:
    parts = split(Styled("one two\n\nthree\nfour five six"), 14)
    assert [part.text for part in parts] == ["one two", "three", "four five six"]
    assert [part.text for part in split(Styled("one two three"), 7)] == ["one two", "three"]
    assert [part.text for part in split(Styled("😀" * 5), 5)] == ["😀😀", "😀😀", "😀"]


def test_a_fence_that_is_cut_goes_on_as_one_of_its_language() -> None:
    code = "\n".join(f"    line {number}" for number in range(500))
    parts = split(render(f"before\n\n```py\n{code}\n```"))
    assert len(parts) == 2
    assert [one.language for part in parts for one in part.entities] == ["py", "py"]
    assert parts[1].text.startswith("    line ")
    assert "before\n\n" + code == parts[0].text + "\n" + parts[1].text


# How fast.


def in_virtual_time(main: Callable[[], Awaitable[Any]]) -> Any:
    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def times_of(chats: list[str], *, spare: bool = False) -> list[tuple[float, str]]:
    """When each of so many calls, all wanted at once, gets its turn."""

    async def main() -> list[tuple[float, str]]:
        pace, began, went = Pace(), trio.current_time(), []

        async def one(chat: str) -> None:
            async with pace.turn(ChatAddress.of(chat), spare=spare):
                went.append((trio.current_time() - began, chat))

        async with trio.open_nursery() as nursery:
            for chat in chats:
                nursery.start_soon(one, chat)
        return went

    return in_virtual_time(main)


def test_one_message_a_second_to_a_chat() -> None:
    times = [at for at, _ in times_of(["7"] * 5)]
    assert times[0] == 0
    assert all(later - earlier > 0.99 for earlier, later in pairwise(times))
    assert times[-1] < 5


def test_twenty_a_minute_to_a_group() -> None:
    times = [at for at, _ in times_of(["-100"] * 45)]
    assert all(later - earlier > 59.99 for earlier, later in zip(times, times[20:], strict=False))
    assert times[19] < 21


def test_thirty_a_second_in_all() -> None:
    times = sorted(at for at, _ in times_of([str(number) for number in range(100)]))
    assert times[29] == 0
    assert all(later - earlier > 0.99 for earlier, later in zip(times, times[30:], strict=False))
    assert times[-1] < 4


def test_twenty_a_second_in_all_of_what_can_be_left_out() -> None:
    times = sorted(at for at, _ in times_of([str(number) for number in range(50)], spare=True))
    assert all(later - earlier > 0.99 for earlier, later in zip(times, times[20:], strict=False))


def test_a_chat_that_waits_holds_up_no_other() -> None:
    went = times_of(["7"] * 50 + ["8", "9"])
    assert {chat: at for at, chat in reversed(went)} == {"7": 0, "8": 0, "9": 0}


def test_a_slow_call_comes_no_closer_to_the_next_one() -> None:
    async def main() -> None:
        pace, there = Pace(), ChatAddress.of("7")
        async with pace.turn(there):
            await trio.sleep(5)
            answered = trio.current_time()
        async with pace.turn(there):
            assert trio.current_time() - answered > 0.99

    in_virtual_time(main)


def test_what_can_be_left_out_leaves_room_for_what_cannot() -> None:
    async def main() -> None:
        pace, there = Pace(), ChatAddress.of("-100")
        for _ in range(15):
            async with pace.turn(there, spare=True):
                pass
        with trio.move_on_after(20):
            async with pace.turn(there, spare=True):
                raise AssertionError("no more of those in this minute")
        began = trio.current_time()
        async with pace.turn(there):
            assert trio.current_time() == began

    in_virtual_time(main)


def test_a_chat_that_telegram_holds_is_tried_later() -> None:
    async def main() -> None:
        pace, there = Pace(), ChatAddress.of("7")
        pace.hold(there, 3)
        began = trio.current_time()
        async with pace.turn(there):
            assert trio.current_time() - began == pytest.approx(3)
            pace.hold(there, 60)
        for _ in range(2):
            with pytest.raises(TryLaterError) as failed:
                async with pace.turn(there):
                    raise AssertionError("not now")
        assert failed.value.seconds == pytest.approx(60)

    in_virtual_time(main)


def test_chats_that_are_silent_again_are_forgotten() -> None:
    async def main() -> None:
        pace = Pace()
        for number in range(5_000):
            async with pace.turn(ChatAddress.of(str(number))):
                pass
            await trio.sleep(0.1)
        assert len(pace._chats) <= 1_000

    in_virtual_time(main)


# Telegram in this process, and in virtual time.


class Direct(BaseRequest):
    """Hands what a bot calls to the fake Bot API, and keeps when it did; `faults` are what happens instead.

    A call takes `takes` seconds on its way, and as long back; the methods in `slow` take longer on their way.
    """

    def __init__(self, state: State) -> None:
        self.api = Api(state)
        self.calls: list[tuple[float, str, dict[str, Any]]] = []
        self.faults: dict[str, deque[Any]] = {}
        self.takes = 0.0
        self.slow: dict[str, float] = {}

    read_timeout = 5.0

    async def initialize(self) -> None: ...

    async def shutdown(self) -> None: ...

    async def do_request(
        self, url: str, method: str, request_data: Any = None, *_: Any, **__: Any
    ) -> tuple[int, bytes]:
        name = url.rpartition("/")[2]
        params: dict[str, Any] = dict(request_data.json_parameters)
        for part, (file, data, mime) in (request_data.multipart_data or {}).items():
            params[part] = (file, mime, data)
        self.calls.append((trio.current_time(), name, params))
        await trio.sleep(self.takes + self.slow.get(name, 0.0))
        waiting = self.faults.get(name)
        fault = waiting.popleft() if waiting else None
        if isinstance(fault, Exception) and not isinstance(fault, ApiError):
            raise fault
        try:
            if fault is not None:
                raise fault
            found = self.api.find(name)
            assert found is not None
            answer: dict[str, Any] = {"ok": True, "result": found(params)}
            await trio.sleep(self.takes)
        except ApiError as error:
            parameters = {"parameters": error.parameters} if error.parameters else {}
            return error.code, json.dumps({"ok": False, "description": str(error), **parameters}).encode()
        return 200, json.dumps(answer).encode()


class World:
    """A chat with Ada, a group, a forum with one topic, and a sender."""

    def __init__(self, state: State, nursery: trio.Nursery, stream: bool) -> None:
        self.state = state
        for chat in (private(), group(), forum()):
            self.state.meet(chat)
        self.asked = self.state.write(private(), {"from": ADA, "text": "hi"})["message_id"]
        self.asked_there = self.state.write(group(), {"from": ADA, "text": "hi"})["message_id"]
        self.state.write(forum(), {"from": ADA, "text": "hi", "message_thread_id": 5})
        self.request = Direct(self.state)
        self.kept: list[tuple[str, str, float]] = []
        self.drafts: dict[str, str] = {}
        bot = Bot(TOKEN, request=self.request, get_updates_request=self.request)
        self.sender = Sender(
            bot, stream=stream, start_soon=nursery.start_soon, desk=self, known=KnownMessages({}, lambda *_: None)
        )
        self.sender.note(ChatAddress.of("7"), self.asked)
        self.replies: trio.Event | None = None

    async def keep_draft(self, message: ChannelMessage, draft: str) -> None:
        self.drafts[message.message_id] = draft
        if draft.isdecimal():
            self.kept.append((message.message_id, draft, trio.current_time()))

    def has_replies(self, message: ChannelMessage) -> bool:
        return self.replies is not None and not self.replies.is_set()

    async def replies_sent(self, message: ChannelMessage) -> None:
        if self.replies is not None:
            await self.replies.wait()

    def inbound(self, **fields: Any) -> ChannelMessage:
        given = {"channel": "telegram", "chat_id": "7", "content": "hi", "message_id": str(self.asked), **fields}
        return ChannelMessage(**given)

    def reply(self, content: str = "", **fields: Any) -> ChannelMessage:
        given = {"channel": "telegram", "chat_id": "7", "content": content, "answers": str(self.asked), **fields}
        return ChannelMessage(**given)

    def tell(self, kind: str, message: ChannelMessage | None = None, **data: Any) -> None:
        """An event of the answer to a message, Ada's first one where none is given."""
        self.sender.on_event(StreamEvent(kind, data), message or self.inbound())

    def said(self, chat: int = 7) -> list[str]:
        """What the bot's messages say now."""
        return [one.get("text") or one.get("caption") or "" for one in self.messages(chat)]

    def messages(self, chat: int = 7) -> list[dict[str, Any]]:
        rows = self.state.rows("SELECT body FROM messages WHERE chat = ? AND NOT deleted ORDER BY id", chat)
        return [one for (body,) in rows if (one := json.loads(body))["from"]["is_bot"]]

    def forms(self, number: int, chat: int = 7) -> list[str]:
        """Each text that a message had."""
        [(history,)] = self.state.rows("SELECT history FROM messages WHERE chat = ? AND id = ?", chat, number)
        return [one["text"] for one in json.loads(history)]

    def called(self, *names: str) -> list[dict[str, Any]]:
        return [params for _, name, params in self.request.calls if not names or name in names]

    def fail(self, name: str, *faults: Exception) -> None:
        self.request.faults.setdefault(name, deque()).extend(faults)


@asynccontextmanager
async def world(state: State, *, stream: bool = True) -> AsyncIterator[World]:
    async with trio.open_nursery() as nursery:
        yield World(state, nursery, stream)
        nursery.cancel_scope.cancel()


Test = Callable[[World], Awaitable[None]]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with closing(State(str(tmp_path / "telegram.db"))) as opened:
        yield opened


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., None]:
    """Run a test in virtual time, with a world of its own."""
    numbers = count()

    def run(test: Test, *, stream: bool = True) -> None:
        async def main() -> None:
            async with world(state, stream=stream) as here:
                await test(here)

        with closing(State(str(tmp_path / f"telegram-{next(numbers)}.db"))) as state:
            in_virtual_time(main)

    return run


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


# Media.


def data_url(data: bytes, mime_type: str = "image/png") -> str:
    return f"data:{mime_type};base64,{base64.b64encode(data).decode()}"


def picture(name: str = "a.png") -> dict[str, str]:
    return {"kind": "image", "mime_type": "image/png", "name": name, "url": data_url(b"PNG" + name.encode())}


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


# Answers while they are made.


def test_a_quick_answer_has_no_draft(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("text", delta="quick")
        await trio.sleep(0.5)
        await here.sender.turn_over(here.inbound())
        await here.sender.send(here.reply("quick"))
        assert [name for _, name, _ in here.request.calls] == ["sendMessage"]
        assert here.said() == ["quick"]

    play(test)


def test_an_answer_is_shown_while_it_is_made(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        for number in range(100):
            here.tell("text", delta=f"{number} ")
            await trio.sleep(0.1)
        await here.sender.turn_over(here.inbound())
        [(asked, draft, kept_at)] = here.kept
        assert asked == str(here.asked)
        await here.sender.send(here.reply(" ".join(map(str, range(100))), draft=draft))
        [message] = here.messages()
        assert str(message["message_id"]) == draft
        forms = here.forms(message["message_id"])
        assert forms[0] == "…"
        assert 7 <= len(forms) <= 11
        assert all(later.startswith(earlier) for earlier, later in pairwise(forms[1:]))
        assert forms[-1] == " ".join(map(str, range(100)))
        edits = [at for at, name, _ in here.request.calls if name == "editMessageText"]
        assert kept_at <= edits[0]
        assert all(later - earlier > 0.99 for earlier, later in pairwise(edits))

    play(test)


def test_a_group_is_edited_less_often(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        asked = here.inbound(chat_id="-100", message_id=str(here.asked_there))
        for number in range(300):
            here.tell("text", asked, delta=f"{number} ")
            await trio.sleep(0.1)
        assert 7 <= len(here.called("editMessageText")) <= 10
        assert here.messages(-100)[0]["reply_to_message"]["message_id"] == here.asked_there

    play(test)


def test_tools_are_shown_while_they_run(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("reasoning", delta="hm")
        await trio.sleep(2)
        assert here.said() == ["…"]
        here.tell("text", delta="Let me *look*.")
        here.tell("tool_call", id="1", name="bash", arguments={"command": "secret"})
        await trio.sleep(3)
        assert here.said() == ["Let me look.\n\n⚙ bash …"]
        here.tell("tool_result", id="1", content="42")
        await trio.sleep(3)
        assert here.said() == ["Let me look."]

    play(test)


def test_nothing_is_edited_that_did_not_change(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("text", delta="so far")
        for _ in range(50):
            here.tell("reasoning", delta="hm")
            here.tell("text", delta="\n")
            await trio.sleep(0.5)
        assert here.said() == ["so far"]
        assert len(here.called("editMessageText")) == 1

    play(test)


def test_a_long_answer_shows_its_end_while_it_is_made(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("text", delta="".join(f"line {number}\n" for number in range(1000)))
        await trio.sleep(5)
        [text] = here.said()
        assert units(text) <= LONGEST_TEXT
        assert text.startswith("…\nline ")
        assert text.endswith("line 999")
        whole = "".join(f"line {number}\n" for number in range(1000))
        await here.sender.send(here.reply(whole, draft=here.kept[0][1]))
        assert "\n".join(here.said()).split() == whole.split()
        assert str(here.messages()[0]["message_id"]) == here.kept[0][1]

    play(test)


def test_a_turn_that_is_taken_again_goes_into_the_same_message(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        draft = here.state.write(private(), {"from": {"id": 4242, "is_bot": True, "first_name": "B"}, "text": "…"})
        number = str(draft["message_id"])
        asked = here.inbound(draft=number)
        here.tell("text", asked, delta="better")
        await trio.sleep(5)
        assert here.said() == ["better"]
        await here.sender.turn_over(asked)
        await here.sender.send(here.reply("better now", draft=number))
        assert here.said() == ["better now"]
        assert here.kept == []
        assert here.called("sendMessage") == []

    play(test)


def test_a_reply_that_was_made_before_its_draft_completes_it(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.request.takes = 3.0
        here.tell("text", delta="slow")
        await trio.sleep(5)
        assert here.said() == ["…"]  # the placeholder is there, and we do not know of it
        await here.sender.send(here.reply("slow but sure"))
        assert here.said() == ["slow but sure"]
        assert len(here.messages()) == 1

    play(test)


def test_no_earlier_text_arrives_behind_the_final_one(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.request.takes = 3.0
        here.tell("text", delta="beginning")
        await trio.sleep(9)
        assert len(here.called("editMessageText")) == 1  # and it is not answered yet
        await here.sender.turn_over(here.inbound())
        await here.sender.send(here.reply("the end", draft=here.kept[0][1]))
        await trio.sleep(30)
        assert here.forms(int(here.kept[0][1])) == ["…", "beginning", "the end"]

    play(test)


def test_a_turn_without_a_reply_leaves_no_placeholder(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("tool_call", id="1", name="bash")
        await trio.sleep(5)
        assert here.said() == ["⚙ bash …"]
        await here.sender.turn_over(here.inbound())
        await here.sender.send(here.reply("", draft=here.kept[0][1]))
        assert here.said() == []

    play(test)


def test_a_turn_that_is_cancelled_leaves_what_it_had_said(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("text", delta="so far")
        here.tell("tool_call", id="1", name="bash")
        await trio.sleep(5)
        await here.sender.turn_over(here.inbound())
        await here.sender.send(here.reply("", draft=here.kept[0][1]))
        assert here.said() == ["so far"]

    play(test)


def test_an_apology_stands_below_what_was_said_and_not_in_its_place(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("text", delta="so far")
        here.tell("tool_call", id="1", name="bash")
        await trio.sleep(5)
        await here.sender.turn_over(here.inbound())
        await here.sender.send(here.reply("Sorry.", kind="error", draft=here.kept[0][1]))
        assert here.said() == ["so far", "Sorry."]

    play(test)


def test_an_apology_takes_the_place_of_a_mere_placeholder(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("reasoning", delta="hm")
        await trio.sleep(5)
        await here.sender.turn_over(here.inbound())
        await here.sender.send(here.reply("Sorry.", kind="error", draft=here.kept[0][1]))
        assert here.said() == ["Sorry."]

    play(test)


def test_a_reply_that_comes_late_is_said_anew(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("reasoning", delta="hm")
        await trio.sleep(3)
        await here.sender.turn_over(here.inbound())
        await here.sender.send(here.reply("", draft=here.kept[0][1]))
        await here.sender.send(here.reply("late"))
        assert here.said() == ["late"]

    play(test)


def test_what_was_said_before_a_crash_and_not_answered_is_no_placeholder_any_more(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("text", delta="so far")
        await trio.sleep(5)
        await here.sender.turn_over(here.inbound())
        here.fail("editMessageText", NetworkError("gone"))
        nothing = here.reply("", draft=here.kept[0][1])
        with pytest.raises(NetworkError):
            await here.sender.send(nothing)
        await here.sender.send(nothing)
        assert here.said() == ["so far"]
        here.state.db.execute("UPDATE messages SET deleted = 1")
        await here.sender.send(nothing)
        assert here.said() == []

    play(test)


def test_a_reply_to_something_else_can_complete_a_draft(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("reasoning", delta="hm")
        await trio.sleep(3)
        await here.sender.turn_over(here.inbound())
        await here.sender.send(here.reply("done", draft=here.kept[0][1], answers="another"))
        assert here.said() == ["done"]

    play(test)


def test_a_placeholder_is_deleted_once_the_network_is_back(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("reasoning", delta="hm")
        await trio.sleep(3)
        here.fail(
            "deleteMessage", NetworkError("gone"), TimedOut(), ApiError(429, "Too Many Requests", retry_after=3_600)
        )
        await here.sender.turn_over(here.inbound())
        nothing = here.reply("", draft=here.kept[0][1])
        for expected in (NetworkError, TimedOut, TryLaterError):
            with pytest.raises(expected):
                await here.sender.send(nothing)
        await trio.sleep(3_600)
        await here.sender.send(nothing)
        assert here.said() == []

    play(test)


def test_the_draft_of_another_answer_is_left_alone(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("text", delta="other")
        await here.sender.send(here.reply("this", answers="another"))
        await trio.sleep(5)
        assert here.said() == ["this", "other"]

    play(test)


def test_edits_go_on_when_the_network_is_back(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.fail("editMessageText", NetworkError("gone"), TimedOut("slow"))
        here.tell("text", delta="so far")
        await trio.sleep(10)
        assert here.said() == ["so far"]

    play(test)


def test_a_placeholder_of_an_earlier_attempt_does_not_stay_without_a_reply(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        draft = here.state.write(private(), {"from": {"id": 4242, "is_bot": True, "first_name": "B"}, "text": "…"})
        await here.sender.turn_over(here.inbound(draft=str(draft["message_id"])))
        await here.sender.send(here.reply("", draft=str(draft["message_id"])))
        assert here.said() == []

    play(test)


def test_a_draft_that_somebody_deleted_is_said_anew(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("text", delta="so far")
        await trio.sleep(3)
        here.state.db.execute("UPDATE messages SET deleted = 1")
        here.tell("text", delta=", so good")
        await trio.sleep(5)
        await here.sender.turn_over(here.inbound())
        await here.sender.send(here.reply("so far, so good", draft=here.kept[0][1]))
        assert here.said() == ["so far, so good"]

    play(test)


def test_a_final_text_that_a_draft_does_not_take_is_said_anew(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("text", delta="so far")
        await trio.sleep(3)
        here.fail("editMessageText", ApiError(400, "Bad Request: MESSAGE_TOO_OLD"))
        here.fail("deleteMessage", NetworkError("gone"))
        reply = here.reply("so far, so good", draft=here.kept[0][1])
        with pytest.raises(NetworkError):
            await here.sender.send(reply)
        await here.sender.send(reply)
        await here.sender.turn_over(here.inbound())
        assert here.said() == ["so far, so good"]

    play(test)


def test_a_placeholder_goes_when_its_text_is_refused(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("reasoning", delta="hm")
        await trio.sleep(3)
        refused = ApiError(400, "Bad Request: text must be non-empty")
        here.fail("editMessageText", refused)
        here.fail("sendMessage", refused)
        with pytest.raises(UndeliverableError):
            await here.sender.send(here.reply("\u200b", draft=here.kept[0][1]))
        assert here.said() == []

    play(test)


def test_a_draft_whose_text_is_final_already_is_fine(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("text", delta="done")
        await trio.sleep(5)
        await here.sender.send(here.reply("done", draft=here.kept[0][1]))
        assert here.said() == ["done"]

    play(test)


def test_edits_obey_a_pause_and_become_slower(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.fail("editMessageText", ApiError(429, "Too Many Requests", retry_after=20))
        for number in range(400):
            here.tell("text", delta=f"{number} ")
            await trio.sleep(0.1)
        edits = [at for at, name, _ in here.request.calls if name == "editMessageText"]
        assert edits[1] - edits[0] > 19.99
        assert all(later - earlier > 1.99 for earlier, later in pairwise(edits[1:]))

    play(test)


def test_nothing_is_shown_in_a_draft_that_cannot_be_kept(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        async def fail(message: ChannelMessage, draft: str) -> None:
            raise OSError("the disk is full")

        here.keep_draft = fail  # type: ignore[method-assign]
        here.tell("text", delta="so far")
        await trio.sleep(5)
        assert here.said() == []
        await here.sender.turn_over(here.inbound())
        await here.sender.send(here.reply("so far, so good"))
        assert here.said() == ["so far, so good"]

    play(test)


@pytest.mark.parametrize("method", ["sendMessage", "editMessageText"])
def test_a_draft_does_not_keep_the_channel_from_ending_at_once(state: State, method: str) -> None:
    async def main() -> None:
        async with world(state) as here:
            here.request.slow[method] = 3_600.0
            here.tell("text", delta="so far")
            await trio.sleep(5)
            assert here.called(method)
            began = trio.current_time()
        assert trio.current_time() - began <= AT_ONCE

    in_virtual_time(main)


def test_a_placeholder_that_is_on_its_way_at_the_end_is_not_forgotten(state: State) -> None:
    async def main() -> None:
        async with world(state) as here:
            here.request.slow["sendMessage"] = 3.0
            here.tell("text", delta="so far")
            await trio.sleep(FIRST_AFTER + 2.0)
            assert here.kept == []
        assert [draft for _, draft, _ in here.kept] == [str(one["message_id"]) for one in here.messages()] != []

    in_virtual_time(main)


def test_nothing_is_shown_before_where_answers_do_not_stream(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("text", delta="so far")
        await trio.sleep(5)
        assert here.request.calls == []

    play(test, stream=False)


def test_a_chat_that_refuses_a_draft_ends_nothing_else(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.state.db.execute("UPDATE chats SET status = 'blocked' WHERE id = 7")
        here.tell("text", delta="so far")
        await trio.sleep(5)
        await here.sender.turn_over(here.inbound())
        await here.sender.send(here.reply("still here", chat_id="-100", answers=""))
        assert here.said(-100) == ["still here"]

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


def asked(server: BotServer, person: int) -> ChannelMessage:
    """What somebody new wrote."""
    update = server.say("hi", user={"id": person, "is_bot": False, "first_name": "Eve"})
    number = str(update["message"]["message_id"])
    return ChannelMessage(channel="telegram", chat_id=str(person), content="hi", message_id=number)


def answer(message: ChannelMessage, content: str, **fields: Any) -> ChannelMessage:
    return ChannelMessage(
        channel="telegram", chat_id=message.chat_id, content=content, answers=message.message_id, **fields
    )


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
