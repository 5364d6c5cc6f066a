"""A real `bub gateway` in a process of its own, and a channel of a plugin that a test talks to over a socket.

The channel `post` keeps a message for each line of JSON that it reads, answers `kept` once it is, and writes each reply
as a line to the file `replies`. The plugin `brain` answers: at once, or for a message that begins with `wait` once the
file that the message names has appeared.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
from fakes.command_line import SOURCES

PATIENCE = 20.0

POST = """
import json
import trio
from bub import hookimpl
from bub.channels import Channel

class Post(Channel):
    name = "post"

    def __init__(self, handler):
        self.handler = handler

    async def run(self, *, task_status=trio.TASK_STATUS_IGNORED):
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        await trio.Path("port").write_text(str(listener.socket.getsockname()[1]))
        task_status.started()
        await trio.serve_listeners(self.read, [listener])

    async def read(self, stream):
        rest = b""
        async for data in stream:
            *lines, rest = (rest + data).split(b"\\n")
            for line in lines:
                await self.handler({"channel": "post", "chat_id": "1", **json.loads(line)})
                await stream.send_all(b"kept\\n")

    async def send(self, message):
        with open("replies", "a") as file:
            file.write(json.dumps([message.kind, message.content]) + "\\n")

class Posts:
    @hookimpl
    def provide_channels(self, message_handler):
        return [Post(message_handler)]

plugin = Posts
"""

BRAIN = """
from pathlib import Path
import trio
from bub import hookimpl

class Brain:
    @hookimpl
    async def run_model(self, prompt, session_id):
        if prompt.startswith("wait "):
            Path(f"{prompt.split()[1]}.begun").touch()
            while not Path(prompt.split()[1]).exists():
                await trio.sleep(0.01)
        return f"one {prompt}"

plugin = Brain
"""

PIPELINE = """
version: 1
extends: bub:default
settings: {gateway: {shutdown_grace: 10s}}
plugins: {post: {path: post.py}, brain: {path: brain.py}}
profiles: {default: {plugins: [post, brain]}}
"""

FILES: Mapping[str, str] = {"post.py": POST, "brain.py": BRAIN, "pipelines.yaml": PIPELINE}

_T = TypeVar("_T")


@dataclass
class Running:
    """A gateway under way in `folder`."""

    folder: Path
    process: subprocess.Popen[bytes]
    _line: socket.socket | None = field(default=None, repr=False)

    @property
    def log(self) -> str:
        """What it has written to standard error."""
        return (self.folder / "stderr").read_text(encoding="utf-8")

    def until(self, look: Callable[[], _T], what: str = "") -> _T:
        """What `look` gives, as soon as that is something; the gateway has to live up to then."""
        deadline = time.monotonic() + PATIENCE
        while not (found := look()):
            is_late = time.monotonic() > deadline or self.process.poll() is not None
            assert not is_late or look(), f"this did not happen: {what or look}\n{self.log}"
            time.sleep(0.01)
        return found

    def wait_for_log(self, words: str, times: int = 1) -> str:
        """The last line of the log with these words, once there are so many."""
        return self.until(lambda: self._with(words)[times - 1 :], words)[-1]

    def page(self) -> str:
        """The address of its page with the token, out of the file that is for the operator alone."""
        line = self.wait_for_log("studio.address ")
        return Path(line.partition("with_token_in=")[2].split()[0]).read_text(encoding="utf-8").strip()

    def _with(self, words: str) -> list[str]:
        return [line for line in self.log.splitlines() if words in line]

    def say(self, content: str, **more: Any) -> None:
        """Send a message; it is kept when this returns."""
        if self._line is None:
            self._line = socket.create_connection(("127.0.0.1", int((self.folder / "port").read_text())), PATIENCE)
        self._line.sendall(f"{json.dumps({'content': content, **more})}\n".encode())
        assert self._line.recv(5) == b"kept\n"

    def hang_up(self) -> None:
        """Say no more."""
        if self._line is not None:
            self._line.close()

    @property
    def replies(self) -> list[list[str]]:
        """Kind and text of each reply."""
        file = self.folder / "replies"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def reply(self, number: int) -> str:
        """The text of the reply of this number, from 1 on, once it is there."""
        return self.until(lambda: self.replies[number - 1 :], f"reply {number}")[0][1]

    def ask(self, path: str, **headers: str) -> httpx.Response:
        """What it serves to whoever watches it."""
        found = re.search(r"127\.0\.0\.1:\d+", self.wait_for_log("monitor.listening"))
        assert found is not None
        return httpx.get(f"http://{found[0]}{path}", headers=headers, timeout=PATIENCE)

    @property
    def health(self) -> dict[str, Any]:
        """What it says of its health."""
        said: dict[str, Any] = self.ask("/healthz").json()
        return said

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self, number: int = signal.SIGTERM) -> int:
        """End it with a signal; its exit code."""
        self.send(number)
        return self.process.wait(PATIENCE)


@contextmanager
def gateway(
    folder: Path,
    *arguments: str,
    ready: bool = True,
    module: str = "bub",
    longest: float = 3 * PATIENCE,
    **environment: str,
) -> Iterator[Running]:
    """Run `bub gateway` for as long as the block; its channel listens when that begins, unless it is not `ready`.

    `module` is run in the place of `bub`. Behind `longest` seconds it is killed, whatever became of the test.
    """
    (folder / "port").unlink(missing_ok=True)
    told = {"PYTHONPATH": SOURCES, "BUB_TRUST_WORKSPACE": "1", **environment}
    with (
        (folder / "stdout").open("wb") as stdout,
        (folder / "stderr").open("wb") as stderr,
        subprocess.Popen(
            [sys.executable, "-m", module, "gateway", *arguments],
            cwd=folder,
            env={**os.environ, **told},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        ) as process,
    ):
        watchdog = threading.Timer(longest, process.kill)
        watchdog.start()
        running = Running(folder, process)
        try:
            if ready:
                running.wait_for_log("channels.running")
            yield running
        finally:
            running.hang_up()
            watchdog.cancel()
            process.kill()
