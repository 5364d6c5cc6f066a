"""`bub gateway` and its like while the store that it needs is away, or lets nobody in, or is too old."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fakes.command_line import bub
from fakes.gateway import FILES, gateway
from fakes.redis_server import RedisServer

from bub.base.redis.address import StoreAddress
from bub.cli.exits import exit_code
from bub.cli.root import command_line
from bub.inbox.shared.redis.inbox import RedisInbox
from bub.inbox.shared.troubles import trouble_of
from bub.inbox.store import MailboxError

NOBODY = "redis://:secret@127.0.0.1:9"
"""A store that is away."""

OLD_HELLO = b"%4\r\n+server\r\n+redis\r\n+version\r\n+6.0.16\r\n+proto\r\n:3\r\n+id\r\n:1\r\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@contextmanager
def answering(hello: bytes) -> Iterator[str]:
    """Serve something that greets so, and takes every other command; gives its address."""

    def talk(line: socket.socket) -> None:
        with line:
            while said := line.recv(4096):
                line.sendall(hello if b"HELLO" in said else b"+OK\r\n")

    def listen() -> None:
        while True:
            try:
                line, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=[line], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=listen, daemon=True).start()
        yield f"redis://:secret@127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def test_a_gateway_waits_for_a_store_that_is_away_and_goes_on_by_itself(
    folder: Path, redis: RedisServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    redis.kill()
    store = f"{redis.address}?partitions=2&lease=1s"
    with gateway(folder, "--listen", "127.0.0.1:0", ready=False, BUB_GATEWAY_STORE=store) as running:
        assert "cannot be reached" in running.wait_for_log("store.away")
        answer = running.ask("/healthz")
        assert (answer.status_code, answer.json()["status"]) == (503, "starting")
        assert answer.json()["shared"]["store"].startswith("away")
        monkeypatch.chdir(folder)
        monkeypatch.setenv("BUB_TRUST_WORKSPACE", "1")
        monkeypatch.setenv("BUB_GATEWAY_STORE", store)
        for command in (["inbox", "list"], ["schedules"], ["gateway", "status"]):
            assert exit_code(lambda command=command: command_line(command)) == 1
            assert "cannot be reached" in capsys.readouterr().err
        redis.start()
        running.wait_for_log("channels.running")
        running.say("hello")
        assert running.reply(1) == "one hello"
        assert running.ask("/healthz").status_code == 200
        assert running.end() == 0
    assert "Traceback" not in running.log


def test_a_gateway_that_waits_for_its_store_ends_at_a_signal(folder: Path) -> None:
    with gateway(folder, ready=False, BUB_GATEWAY_STORE=NOBODY) as running:
        running.wait_for_log("store.away")
        assert running.end(signal.SIGINT) == 130
        assert "gateway.ended" in running.log
    assert "Traceback" not in running.log
    assert "secret" not in running.log


def test_bubs_own_folder_is_not_removed_while_a_gateway_with_a_store_runs(folder: Path) -> None:
    with gateway(folder, ready=False, BUB_GATEWAY_STORE=NOBODY) as running:
        running.wait_for_log("store.away")
        refused = bub(folder, "uninstall", "--yes")
        assert refused.returncode == 1 and "another process works in" in refused.stderr
        with gateway(folder, ready=False, BUB_GATEWAY_STORE=NOBODY) as other:  # gateways share the folder
            other.wait_for_log("store.away")
    removed = bub(folder, "uninstall", "--yes")
    assert removed.returncode == 0, removed.stderr


WORDS = {
    "6.0": (OLD_HELLO, "Redis 6.2 or newer, or Valkey"),
    "5": (b"-ERR unknown command `HELLO`\r\n", "Redis 6.2 or newer, or Valkey"),
    "no entry": (b"-WRONGPASS invalid username-password pair\r\n", "the user and the password"),
}


@pytest.mark.anyio
@pytest.mark.parametrize("name", WORDS)
async def test_a_store_that_may_not_be_used_is_an_error_and_is_not_waited_for(name: str) -> None:
    hello, words = WORDS[name]
    with answering(hello) as address:
        inbox = RedisInbox(StoreAddress.parse(address), "front")
        with pytest.raises(MailboxError) as raised:
            await inbox.open()
    assert trouble_of(raised.value) is None
    assert words in (raised.value.help or "")
    assert "secret" not in f"{raised.value} {raised.value.help}"
