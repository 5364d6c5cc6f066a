"""How long a turn's way through the house is: calls of Bub's functions, the modules they are in, changes of module."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import trio

import bub
from bub import BubFramework
from bub.channels import Channel, ChannelManager, ChannelMessage
from bub.inbox.mailbox import Mailbox

HOME = str(Path(bub.__file__).parent)
PLUGIN = """
from bub import hookimpl

@hookimpl
def run_model(prompt):
    return f"you said {prompt}"
"""
CHANNEL = """
from bub import hookimpl
from tests.bench.way import Line

@hookimpl
def provide_channels(message_handler):
    return [Line(message_handler)]
"""


class Line(Channel):
    """A channel in memory that the measurement speaks into; `last` is the one that was made last."""

    name = "line"
    last: Line

    def __init__(self, handler: Callable[[Any], Awaitable[None]]) -> None:
        self.handler, self.arrived = handler, trio.Event()
        Line.last = self

    async def send(self, message: ChannelMessage) -> None:
        self.arrived.set()

    async def ask(self) -> None:
        """Say something and wait for the reply."""
        self.arrived = trio.Event()
        await self.handler({"channel": "line", "chat_id": "1", "content": "hello"})
        await self.arrived.wait()


class Way:
    """Counts what is called in Bub while it is open; what resumes a coroutine counts as a call of it."""

    def __init__(self) -> None:
        self.modules: list[str] = []

    def __enter__(self) -> Way:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(HOME):
            self.modules.append(frame.f_code.co_filename)

    def __str__(self) -> str:
        changes = sum(one != other for one, other in zip(self.modules, self.modules[1:], strict=False))
        return f"{len(self.modules):>7} {len(set(self.modules)):>8} {changes:>18}"


def measure() -> None:
    """Print the way of one turn of an echo plugin, called by a program and through a channel."""
    print(f"{'one turn':<20} {'calls':>7} {'modules':>8} {'changes of module':>18}")
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'process_inbound':<20} {trio.run(_by_a_program, Path(folder))}")
        print(f"{'through a channel':<20} {trio.run(_through_a_channel, Path(folder))}")


async def _by_a_program(folder: Path) -> Way:
    framework = _framework(folder, echo=PLUGIN)
    async with framework.running():
        message = {"content": "hello", "channel": "line", "chat_id": "1"}
        await framework.process_inbound(message)
        with Way() as way:
            await framework.process_inbound(message)
    return way


async def _through_a_channel(folder: Path) -> Way:
    framework = _framework(folder, echo=PLUGIN, line=CHANNEL)
    async with framework.running(), trio.open_nursery() as nursery:
        manager = ChannelManager(framework, ["line"], mailbox=Mailbox(None, framework.workspace))
        await nursery.start(manager.run)
        await Line.last.ask()
        with Way() as way:
            await Line.last.ask()
        manager.drain()
    return way


def _framework(folder: Path, **plugins: str) -> BubFramework:
    for name, text in plugins.items():
        (folder / f"{name}.py").write_text(text)
    file = folder / "pipelines.yaml"
    paths = ", ".join(f"{name}: {{path: {name}.py}}" for name in plugins)
    file.write_text(f"""
version: 1
extends: bub:default
plugins: {{{paths}}}
profiles: {{default: {{plugins: [{", ".join(plugins)}]}}}}
""")
    framework = BubFramework(file)
    framework.load_hooks()
    return framework


if __name__ == "__main__":
    from tests.bench import way  # the module that the plugin imports, not this one under another name

    way.measure()
