"""The Bot API server as a test sees it: started, killed and restarted; people who write to its bot; what came back."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import trio
from fakes.telegram_server import ADA, BOT, TOKEN

__all__ = ["ADA", "BOB", "BOT", "TOKEN", "BotServer", "forum", "group", "private", "serving_bots"]

BOB = {"id": 8, "is_bot": False, "first_name": "Bob"}
T = TypeVar("T")
Json = dict[str, Any]


def private(user: Json = ADA) -> Json:
    """The chat of a person with the bot."""
    return {"type": "private", **{name: user[name] for name in ("id", "first_name", "username") if name in user}}


def group(number: int = -100, title: str = "Friends") -> Json:
    return {"id": number, "type": "supergroup", "title": title}


def forum(number: int = -200, title: str = "Forum") -> Json:
    return {"id": number, "type": "supergroup", "title": title, "is_forum": True}


class BotServer:
    """A Bot API server whose memory is the file `state`: `kill` and `start` it again, it stays at its address.

    With `host` "0.0.0.0" other machines reach it, too.

    Everything here answers at once but `until`, which waits in a thread, so that the channel under test can go on.
    """

    def __init__(self, state: Path, host: str = "127.0.0.1") -> None:
        self.state = state
        self.host = host
        self.port = 0
        self.process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, str(Path(__file__).with_name("telegram_server.py")), str(self.state)]
        command += [str(self.port), self.host]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().rpartition(":")[2])

    def kill(self) -> None:
        """End it as `kill -9` does."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    # People

    def say(self, text: str | None = None, *, chat: Json | None = None, user: Json = ADA, **fields: Any) -> Json:
        """Somebody writes, Ada to the bot where nothing else is said; the update that it makes.

        `reply_to` and `edits` are ids of messages, and any field of a message can be given.
        """
        written = {"chat": chat or private(user), "from": user, **fields}
        if text is not None:
            written["text"] = text
        [update] = self.control("messages", [written])
        return update

    def say_all(self, messages: Sequence[Json]) -> list[Json]:
        """Many messages at once, each with `chat`, `from` and `text`."""
        updates: list[Json] = self.control("messages", list(messages))
        return updates

    def inject(self, update: Json) -> Json:
        """An update of any form, such as one that cannot be understood."""
        [made] = self.control("messages", [{"raw": update}])
        return made

    def press(self, chat: int, message_id: int, data: str, user: Json = ADA) -> Json:
        """Somebody presses a button below a message of the bot."""
        pressed: Json = self.control("press", {"chat": chat, "message_id": message_id, "data": data, "from": user})
        return pressed

    def file(self, data: bytes, name: str = "file.bin", *, size_known: bool = True) -> Json:
        """A file of somebody's, as a message refers to it."""
        given = {"name": name, "data": base64.b64encode(data).decode(), "size_known": size_known}
        kept: Json = self.control("file", given)
        return kept

    # What came back

    def messages(self, chat: int) -> list[Json]:
        """Every message of a chat in order: `message`, `history` (each form that it had) and `deleted`."""
        found: list[Json] = self.control("chat", id=chat)
        return found

    def said(self, chat: int) -> list[str]:
        """The texts, or captions, of the bot in a chat as they stand now."""
        mine = [
            one["message"]
            for one in self.messages(chat)
            if one["message"]["from"]["id"] == BOT["id"] and not one["deleted"]
        ]
        return [one.get("text") or one.get("caption") or "" for one in mine]

    def calls(self, method: str = "", after: int = 0) -> list[Json]:
        """What the bot called behind call `after`, each with its `params`; without a method, all but getUpdates."""
        found: list[Json] = self.control("calls", after=after, **({"method": method} if method else {}))
        return found

    def pending(self) -> list[Json]:
        """The updates that are not confirmed."""
        found: list[Json] = self.control("pending")
        return found

    def polls(self) -> int:
        """How many calls of getUpdates wait now."""
        waiting: int = self.control("polls")
        return waiting

    async def until(self, found: Callable[[], T], seconds: float = 10.0) -> T:
        """What `found` finds as soon as it finds something; it is asked again after each change."""
        with trio.fail_after(seconds):
            while True:
                seen = await self._changes(-1)
                if value := found():
                    return value
                await self._changes(seen)
        raise AssertionError

    async def _changes(self, after: int) -> int:
        ask = partial(self.control, "wait", after=after)
        count: int = await trio.to_thread.run_sync(ask, abandon_on_cancel=True)
        return count

    # Faults

    def fault(self, method: str = "*", times: int = 1, *, given: str = "", **do: Any) -> None:
        """Let the next calls go wrong: `status=500`, `description=…`, `parameters={…}`, `cut="before"`, `hold=True`,
        `late=3`; with `given`, only calls that have this parameter."""
        self.control("fault", {"method": method, "times": times, "given": given, "do": do})

    def forgive(self) -> None:
        """Let nothing more go wrong of what `fault` asked for."""
        self.control("forgive", {})

    def weather(self, share: float, seed: int = 0, **do: list[Json]) -> None:
        """Let so many of all calls go wrong, each in one of the ways that `do` has for its method, or for `rest`."""
        ways = {"*" if method == "rest" else method: actions for method, actions in do.items()}
        self.control("weather", {"share": share, "seed": seed, "do": ways})

    def redeliver(self, last: int) -> None:
        """Let the last updates that were confirmed come again."""
        self.control("redeliver", {"last": last})

    def limits(self, chat_interval: float = 0, per_second: int = 0) -> None:
        """Flood limits, as seconds between two messages of a chat and as messages a second in all."""
        self.control("limits", {"chat_interval": chat_interval, "per_second": per_second})

    def number_together(self) -> None:
        """Number the messages of all private chats with one count, as Telegram does for a bot."""
        self.control("together", {})

    def webhook(self, url: str) -> None:
        """Somebody has given the bot a webhook."""
        self.control("webhook", {"url": url})

    def revoke(self) -> None:
        """Take the token away from the bot."""
        self.control("revoke", {"token": "4242:another-token-than-before"})

    def reset(self) -> None:
        """Forget everything, as a new server."""
        self.control("reset", {})

    def control(self, name: str, body: Any = None, **query: Any) -> Any:
        url = f"{self.address}/control/{name}" + (f"?{urlencode(query)}" if query else "")
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(url, data, method="GET" if data is None else "POST")
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=15) as answer:
            return json.load(answer)


@contextmanager
def serving_bots(state: Path, host: str = "127.0.0.1") -> Iterator[BotServer]:
    """A server that runs for as long as the block."""
    server = BotServer(state, host)
    server.start()
    try:
        yield server
    finally:
        server.kill()
