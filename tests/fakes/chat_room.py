"""A room in which somebody sits at `bub chat`: a folder, a home, and a plugin that answers out of scripts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fakes.command_line import SOURCES
from fakes.screen import (
    Sitting,
)
from fakes.scripted import OPENAI, Called, Script

from bub.channels.terminal.answer import Look, Printout
from bub.channels.terminal.painting import Painter

PLUGIN = '''
"""What is said stands for the script of the model that has this name, else for one that says it again."""

import json
import pathlib
from bub import hookimpl
from bub.channels.channel import Channel
from bub.envelope import content_of

HERE = pathlib.Path(__file__).parent


class Phone(Channel):
    name = "phone"


class Plugin:
    @hookimpl
    def provide_channels(self, message_handler):
        return [Phone()]

    @hookimpl
    def build_prompt(self, message):
        words = content_of(message)
        script = HERE / f"{words}.script"
        if words == "print":
            print("printed by a plugin\\nin two lines")
        if len(words) < 20 and script.is_file():
            return script.read_text()
        if words.startswith(","):
            return None
        words += "".join(f" +{one['name']}" for one in message.media)
        return (HERE / "echo.script").read_text().replace("WORDS", json.dumps(words)[1:-1])


plugin = Plugin()
'''


class Room:
    """A folder with an agent, whose model does what a script of the name of a message says."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.file = folder / "pipelines.yaml"
        self._scripts = 0
        (folder / "scripts.py").write_text(PLUGIN, encoding="utf-8")
        self.file.write_text(
            "version: 1\n"
            "extends: bub:default\n"
            "settings:\n"
            "  model: test:m\n"
            "  retries: 0\n"
            f'  providers: {{test: {{api: openai, api_base: "{address}/v1", api_key: "${{env:TEST_KEY}}"}}}}\n'
            "plugins: {scripts: {path: scripts.py}}\n"
            'profiles: {default: {plugins: [scripts], tools: {allow: ["*", bash], ask: [bash]}}}\n',
            encoding="utf-8",
        )
        self.script("echo", OPENAI.answer("You said: WORDS", at_once=100))

    def script(self, words: str, *steps: Script) -> None:
        """What the model does when it is told these words."""
        self._scripts += 1  # nobody has begun to play this one
        own = [[{"of": f"{self.folder} {self._scripts}"}, *step] for step in steps]
        (self.folder / f"{words}.script").write_text(json.dumps(own), encoding="utf-8")

    def sit(self, *arguments: str, **options: Any) -> Sitting:
        return Sitting(self.folder, "--config", str(self.file), "chat", *arguments, TEST_KEY="sk-test-key-1", **options)

    def run(self, *arguments: str, input: bytes, stdout: Any, **environment: str) -> subprocess.CompletedProcess[bytes]:  # noqa: A002
        told = {"PYTHONPATH": SOURCES, "PYTHONIOENCODING": "utf-8", "TEST_KEY": "sk-test-key-1", **environment}
        return subprocess.run(
            [sys.executable, "-m", "bub", "--config", str(self.file), *arguments],
            cwd=self.folder,
            env={**os.environ, **told},
            input=input,
            stdout=stdout,
            stderr=subprocess.PIPE,
            timeout=60,
        )

    def pipe(self, text: str | bytes, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        data = text if isinstance(text, bytes) else text.encode()
        done = self.run("chat", *arguments, input=data, stdout=subprocess.PIPE, **environment)
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def calling(command: str, *, id: str = "call_1") -> Script:  # noqa: A002
    return OPENAI.answer(calls=[Called("bash", json.dumps({"command": command}), id)])


def begun(text: str) -> Script:
    """An answer that begins, and then waits until whoever asked is gone."""
    return [*OPENAI.beginning(text), {"hold": True}]


def painted(text: str, width: int = 40, look: Look = "markdown") -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", Painter("utf-8").paint(Printout(look, text), width))


def make_room(folder: Path, address: str) -> Room:
    """A room in a new folder, whose model is at an address."""
    folder.mkdir()
    return Room(folder, address)


@contextmanager
def open_lounge(folder: Path, address: str) -> Iterator[tuple[Room, Sitting]]:
    """A room in which one person sits through many tests, and leaves in peace."""
    room = Room(folder, address)
    with room.sit(BUB_HOME=str(room.folder / "home")) as chat:
        chat.see_prompt()
        yield room, chat
        assert chat.leave() == 0


@contextmanager
def clear_screen(lounge: tuple[Room, Sitting]) -> Iterator[tuple[Room, Sitting]]:
    """The room in which somebody sits, whose screen is empty but for the line; and so they leave it."""
    _, chat = lounge
    chat.clear()
    yield lounge
    chat.see_prompt()
