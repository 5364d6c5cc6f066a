"""A model server that costs next to nothing: every answer is made beforehand, and written as fast or slow as asked.

Run it as `python -m tests.bench._answers`; it prints its address and lives until its stdin closes. A request to
`/TOKENS/RATE/v1/chat/completions` is answered by so many pieces of text, so many of them a second; 0 is all at once.
"""

from __future__ import annotations

import json
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
TICK = 0.002


@contextmanager
def answering() -> Iterator[str]:
    """The address of a server that runs for as long as the block."""
    command = [sys.executable, "-m", "tests.bench._answers"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@cache
def answer_of(tokens: int) -> tuple[bytes, ...]:
    """The pieces of an answer in OpenAI's form; the last one ends it."""
    pieces = [_event({"choices": [{"index": 0, "delta": {"content": f" word{at}"}}]}) for at in range(tokens)]
    end = _event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    usage = _event(
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": tokens, "total_tokens": tokens + 3}}
    )
    return (*pieces, end + usage + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")


def _event(data: dict[str, Any]) -> bytes:
    whole = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "bench", **data}
    return _chunk(f"data: {json.dumps(whole)}\n\n".encode())


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Connection:
    """One connection of a client: what came of its request, and what is still to be written of the answer."""

    __slots__ = ("due", "pace", "pieces", "received", "socket", "unsent")

    def __init__(self, client: socket.socket) -> None:
        self.socket = client
        self.received = b""
        self.pieces: Iterator[bytes] | None = None
        self.unsent = b""
        self.due = self.pace = 0.0

    def receive(self) -> bool:
        """Read on; whether the client is still there."""
        try:
            data = self.socket.recv(1 << 20)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.received += data
        head, ended, body = self.received.partition(b"\r\n\r\n")
        if ended and len(body) >= _length_in(head):
            self.received = b""
            _, tokens, rate, _ = head.split(b" ", 2)[1].split(b"/", 3)
            self._begin(answer_of(int(tokens)), float(rate))
        return bool(data)

    def _begin(self, answer: tuple[bytes, ...], rate: float) -> None:
        if not rate:
            self.unsent = HEAD + b"".join(answer)
            return
        self.unsent, self.pieces, self.pace = HEAD, iter(answer), 1 / rate
        self.due = time.monotonic()

    def write(self, now: float) -> None:
        """Write what is due."""
        while self.pieces is not None and self.due <= now:
            piece = next(self.pieces, None)
            if piece is None:
                self.pieces = None
                break
            self.unsent += piece
            self.due += self.pace
        if self.unsent:
            try:
                self.unsent = self.unsent[self.socket.send(self.unsent) :]
            except BlockingIOError:
                pass
            except OSError:
                self.unsent, self.pieces = b"", None


def _length_in(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def _waiting_clients(listening: socket.socket) -> Iterator[socket.socket]:
    """All who wait to be let in: one at a time, a thousand would wait for a thousand rounds of writing."""
    while True:
        try:
            client, _ = listening.accept()
        except BlockingIOError:
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield client


def serve() -> None:
    """Answer whoever asks."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=4096)
    listening.setblocking(False)
    waiting = selectors.DefaultSelector()
    waiting.register(listening, selectors.EVENT_READ)
    waiting.register(sys.stdin, selectors.EVENT_READ)
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    busy: set[Connection] = set()
    while True:
        for key, _ in waiting.select(TICK if busy else None):
            if key.fileobj is sys.stdin:
                return
            if key.fileobj is listening:
                for client in _waiting_clients(listening):
                    waiting.register(client, selectors.EVENT_READ, Connection(client))
                continue
            connection: Connection = key.data
            if connection.receive():
                busy.add(connection)
            else:
                waiting.unregister(connection.socket)
                connection.socket.close()
                busy.discard(connection)
        now = time.monotonic()
        for connection in list(busy):
            connection.write(now)
            if connection.pieces is None and not connection.unsent:
                busy.discard(connection)


if __name__ == "__main__":
    serve()
