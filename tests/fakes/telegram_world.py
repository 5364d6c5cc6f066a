"""Telegram in this process and in virtual time: a chat with Ada, a group, a forum, and the sender under test."""

from __future__ import annotations

import base64
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from itertools import count
from pathlib import Path
from typing import Any

import trio
import trio.testing
from fakes.telegram import ADA, BotServer, forum, group, private
from fakes.telegram_server import TOKEN, Api, ApiError, State
from telegram import Bot
from telegram.request import BaseRequest

from bub.channels import ChannelMessage
from bub.streaming import StreamEvent
from bub_plugins.telegram.limits import ChatAddress
from bub_plugins.telegram.lost import KnownMessages
from bub_plugins.telegram.sending import Sender


def in_virtual_time(main: Callable[[], Awaitable[Any]]) -> Any:
    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


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


def data_url(data: bytes, mime_type: str = "image/png") -> str:
    return f"data:{mime_type};base64,{base64.b64encode(data).decode()}"


def picture(name: str = "a.png") -> dict[str, str]:
    return {"kind": "image", "mime_type": "image/png", "name": name, "url": data_url(b"PNG" + name.encode())}


def asked(server: BotServer, person: int) -> ChannelMessage:
    """What somebody new wrote."""
    update = server.say("hi", user={"id": person, "is_bot": False, "first_name": "Eve"})
    number = str(update["message"]["message_id"])
    return ChannelMessage(channel="telegram", chat_id=str(person), content="hi", message_id=number)


def answer(message: ChannelMessage, content: str, **fields: Any) -> ChannelMessage:
    return ChannelMessage(
        channel="telegram", chat_id=message.chat_id, content=content, answers=message.message_id, **fields
    )


Test = Callable[[World], Awaitable[None]]


def player(folder: Path) -> Callable[..., None]:
    """What runs a test in virtual time, with a world of its own below the folder."""
    numbers = count()

    def run(test: Test, *, stream: bool = True) -> None:
        async def main() -> None:
            async with world(state, stream=stream) as here:
                await test(here)

        with closing(State(str(folder / f"telegram-{next(numbers)}.db"))) as state:
            in_virtual_time(main)

    return run
