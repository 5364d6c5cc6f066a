"""A service that a channel on asyncio is connected to, as in Slack's socket mode: what is not confirmed comes again.

`PLUGIN` is that channel, for the file of a plugin. It confirms a message once Bub keeps it, and a reply counts as sent
once the service has confirmed it. While there is a file `blocked`, a message blocks its loop; then `begun` is made.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

PLUGIN = """
import asyncio
import itertools
import json
import time
from pathlib import Path
from bub import hookimpl
from bub.channels import Channel, ChannelMessage

class Wire(Channel):
    name = "wire"

    def __init__(self, handler):
        self.handler = handler
        self.writer = None
        self.sent = {}
        self.numbers = itertools.count(1)

    async def run(self, *, task_status):
        task_status.started()
        while True:
            try:
                await self.talk()
            except OSError:
                pass
            await asyncio.sleep(0.1)

    async def talk(self):
        reader, self.writer = await asyncio.open_connection("127.0.0.1", PORT)
        async for line in reader:
            said = json.loads(line)
            if "posted" in said:
                posted = self.sent.pop(said["posted"], None)
                if posted is not None and not posted.done():  # who waited may have been cancelled
                    posted.set_result(None)
                continue
            while Path("blocked").exists():
                Path("begun").touch()
                time.sleep(0.01)
            await self.handler(
                ChannelMessage(channel="wire", chat_id=said["chat"], content=said["text"], once=str(said["id"]))
            )
            self.tell({"kept": said["id"]})

    def tell(self, what):
        self.writer.write(json.dumps(what).encode() + b"\\n")

    async def send(self, message):
        number = next(self.numbers)
        posted = self.sent[number] = asyncio.get_running_loop().create_future()
        self.tell({"post": number, "chat": message.chat_id, "text": message.content})
        await asyncio.wait_for(posted, 5)

class Wires:
    @hookimpl
    def provide_channels(self, message_handler):
        return [Wire(message_handler)]

plugin = Wires
"""


class Service:
    """The other end: `open` are the messages that the channel has not confirmed yet, `posts` its replies."""

    name = "wire"
    plugin = "{path: wire.py, runtime: asyncio}"
    settings = "{}"
    environment: Mapping[str, str] = {}
    repeated: Collection[str] = ()
    """None of its messages has two turns: each has a name, and comes `once`."""

    def __init__(self) -> None:
        self.open: dict[int, dict[str, Any]] = {}
        self.posts: list[str] = []
        self._count = 0
        self._guard = threading.Lock()
        self._line: socket.socket | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]

    @property
    def files(self) -> dict[str, str]:
        """The plugin whose channel connects to it."""
        return {"wire.py": PLUGIN.replace("PORT", str(self.port))}

    @property
    def is_connected(self) -> bool:
        """Whether a gateway is there."""
        return self._line is not None

    @property
    def unconfirmed(self) -> list[str]:
        """The messages that no gateway has confirmed."""
        with self._guard:
            return [said["text"] for said in self.open.values()]

    def say(self, text: str, chat: str) -> None:
        """Somebody writes."""
        with self._guard:
            self._count += 1
            said = self.open[self._count] = {"id": self._count, "chat": chat, "text": text}
            self._tell(said)

    def serve(self) -> None:
        """Serve one connection after another until it is closed."""
        while True:
            try:
                line, _ = self._listener.accept()
            except OSError:
                return
            with self._guard:
                self._line = line
                for said in self.open.values():
                    self._tell(said)
            threading.Thread(target=self._read, args=[line], daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _read(self, line: socket.socket) -> None:
        try:
            with line, line.makefile("rb") as stream:
                for text in stream:
                    self._hear(json.loads(text), line)
        except OSError:
            pass  # it was killed
        with self._guard:
            if self._line is line:
                self._line = None

    def _hear(self, said: dict[str, Any], line: socket.socket) -> None:
        with self._guard:
            if "kept" in said:
                self.open.pop(said["kept"], None)
                return
            self.posts.append(said["text"])
            line.sendall(json.dumps({"posted": said["post"]}).encode() + b"\n")

    def _tell(self, said: dict[str, Any]) -> None:
        if self._line is None:
            return
        try:
            self._line.sendall(json.dumps(said).encode() + b"\n")
        except OSError:
            self._line = None


@contextmanager
def serving_wire() -> Iterator[Service]:
    """A service for as long as the block."""
    service = Service()
    thread = threading.Thread(target=service.serve, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        service.close()
        thread.join(5)
