"""A channel on asyncio in a real gateway, beside one on trio: answers, a blocked loop, a reload, the end."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest
from fakes.gateway import FILES, PATIENCE, Running, gateway

WIRE = """
import asyncio
import time
from pathlib import Path
from bub import hookimpl
from bub.channels import Channel, ChannelMessage

class Wire(Channel):
    name = "wire"

    def __init__(self, handler):
        self.handler = handler
        self.writers = {}

    async def run(self, *, task_status):
        server = await asyncio.start_server(self.read, "127.0.0.1", 0)
        Path("wire").write_text(str(server.sockets[0].getsockname()[1]))
        task_status.started()
        try:
            await asyncio.Event().wait()
        finally:
            server.close()

    async def read(self, reader, writer):
        chat = str(writer.get_extra_info("peername")[1])
        self.writers[chat] = writer
        async for line in reader:
            text = line.decode().strip()
            if text == "block":
                while not Path("free").exists():
                    time.sleep(0.01)
            await self.handler(ChannelMessage(channel="wire", chat_id=chat, content=text))

    async def send(self, message):
        self.writers[message.chat_id].write(f"{message.content}\\n".encode())

class Wires:
    @hookimpl
    def provide_channels(self, message_handler):
        return [Wire(message_handler)]

plugin = Wires
"""

PIPELINE = (
    FILES["pipelines.yaml"]
    .replace("plugins: {post", "plugins: {wire: {path: wire.py, runtime: asyncio}, post")
    .replace("[post, brain]", "[wire, post, brain]")
)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = tmp_path / "work"
    made.mkdir()
    for name, text in {**FILES, "wire.py": WIRE, "pipelines.yaml": PIPELINE}.items():
        (made / name).write_text(text)
    with gateway(made, "--listen", "127.0.0.1:0") as one:
        yield one


@contextmanager
def called(folder: Path) -> Iterator[TextIO]:
    """A line to the channel on asyncio."""
    address = ("127.0.0.1", int((folder / "wire").read_text()))
    with socket.create_connection(address, PATIENCE) as line, line.makefile("rw", encoding="utf-8") as text:
        yield text


def say(line: TextIO, word: str) -> None:
    line.write(f"{word}\n")
    line.flush()


def ask(line: TextIO, word: str) -> str:
    """What comes back for a word."""
    say(line, word)
    return line.readline().strip()


def test_a_blocked_loop_stops_its_plugin_and_nobody_else_and_comes_back(running: Running) -> None:
    with called(running.folder) as line:
        assert ask(line, "hello") == "one hello"
        assert (running.health["status"], running.health["plugins"]) == ("ok", {})
        say(line, "block")
        slowest, number = 0.0, 0
        while "island.blocked" not in running.log:
            began, number = time.monotonic(), number + 1
            running.say("hello")
            assert running.reply(number) == "one hello"
            slowest = max(slowest, time.monotonic() - began)
    assert slowest < 1
    health = running.health
    assert (health["status"], health["channels"]["post"]) == ("degraded", "running")
    assert "wire.py" in health["plugins"]["wire"]
    (running.folder / "free").touch()
    running.wait_for_log("island.runs_again")
    running.until(lambda: running.health["channels"]["wire"] == "running", "the channel runs again")
    with called(running.folder) as line:
        assert ask(line, "again") == "one again"
        running.send(signal.SIGHUP)
        running.wait_for_log("pipeline.reloaded")
        assert ask(line, "after the reload") == "one after the reload"
        began = time.monotonic()
        assert running.end() == 0
    assert time.monotonic() - began < 5


def test_a_gateway_ends_soon_whose_loop_is_blocked_for_good(running: Running) -> None:
    with called(running.folder) as line:
        say(line, "block")
        running.wait_for_log("island.blocked")
        began = time.monotonic()
        assert running.end(signal.SIGINT) == 130
    assert time.monotonic() - began < 8
    assert "island.does_not_end" in running.log
