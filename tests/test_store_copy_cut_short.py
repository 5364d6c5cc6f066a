"""`bub store copy` that is killed, or whose store goes away or is full: half a copy is nobody's, and goes on."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from fakes.copying import bub, digest_in, fill, tapes_in
from fakes.gateway import FILES
from fakes.redis_server import RedisServer, serving_redis

from bub.base.redis.keys import Keys
from bub.base.redis.settings import agent_of
from bub.inbox.mailbox import Mailbox, inbox_file
from bub.tape.copying.mark import HalfCopyError

Capsys = pytest.CaptureFixture[str]

ENTRIES = int(os.environ.get("COPY_ENTRIES", "2000"))
KILLS = int(os.environ.get("COPY_KILLS", "1"))
"""How often a copy to a Redis is killed; `make copy` does so more often."""

BUB = [sys.executable, "-m", "bub"]
COPY = [*BUB, "store", "copy"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Bub's own folder, of an agent that works in `tmp_path` and has something of everything."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BUB_TRUST_WORKSPACE", "1")
    fill(tmp_path / "home", tmp_path, ENTRIES, 100)
    return tmp_path / "home"


def stop_midway(
    stop: Callable[[subprocess.Popen[str]], object],
    is_midway: Callable[[], bool],
    clear: Callable[[], object],
    *arguments: str,
) -> tuple[int, str]:
    """Let `bub store copy ARGUMENTS` be stopped midway; return its exit code and what it has said.

    A copy that was faster is cleared away, and begins again: how long it takes is not known.
    """
    for _ in range(5):
        with subprocess.Popen([*COPY, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as one:
            while one.poll() is None and not is_midway():
                time.sleep(0.002)
            if one.poll() is None:
                stop(one)
            _, said = one.communicate(timeout=30)
        if "Next: set" not in said and "Next: take" not in said:
            return one.returncode, said
        clear()
    raise AssertionError("the copy was always faster")


def kill(process: subprocess.Popen[str]) -> None:
    """End a copy with no word to it."""
    process.kill()


def check_refusals(capsys: Capsys, *commands: list[str]) -> None:
    """See that no command works on half a copy, and that each says what to do."""
    for command in commands:
        ended = bub(capsys, *command)
        assert ended.code == 1, command
        assert "holds half a copy of" in ended.err
        assert "give the same `bub store copy` again" in ended.err


def test_a_copy_to_a_redis_that_was_killed_is_refused_and_goes_on(
    home: Path, tmp_path: Path, redis: RedisServer, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    tapes = Keys("bub", agent_of(tmp_path)).of_all("tapes")
    stop_midway(kill, lambda: redis.ask("HLEN", tapes) > 3, lambda: redis.ask("FLUSHALL"), "files", redis.address)
    with monkeypatch.context() as environ:
        environ.setenv("BUB_GATEWAY_STORE", redis.address)
        check_refusals(capsys, ["inbox", "list"], ["tape", "list"], ["store", "copy", "shared", "./x"])
        # What a gateway logs in this process it would log for all tests behind this one.
        gateway = subprocess.run([*BUB, "gateway"], capture_output=True, text=True, timeout=60, check=False)
        assert (gateway.returncode, "holds half a copy of" in gateway.stderr) == (1, True)
    fill(tmp_path / "other", tmp_path)
    other = bub(capsys, "store", "copy", "./other", redis.address)
    assert (other.code, "holds half a copy of" in other.err) == (1, True)

    for number in range(1, KILLS):
        with subprocess.Popen([*COPY, "files", redis.address]) as process:
            time.sleep(0.5 + number / KILLS * ENTRIES / 20_000)  # at any moment, near its end, too
            process.kill()
    again = bub(capsys, "store", "copy", "files", redis.address, *(["--replace", "--yes"] if KILLS > 1 else []))
    assert f"{ENTRIES + 2:,} entries of 22 tapes" in again.out, again.err
    assert "104 messages" in again.out
    redis.ask("FLUSHALL")
    assert digest_in(bub(capsys, "store", "copy", "files", redis.address).out) == digest_in(again.out)


def test_a_copy_to_files_that_was_killed_is_refused_and_goes_on(
    home: Path, tmp_path: Path, redis: RedisServer, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    there = bub(capsys, "store", "copy", "files", redis.address)
    target, file = tmp_path / "back", tmp_path / "back" / "tapes" / "tapes.db"

    def is_midway() -> bool:
        return file.exists() and len(tapes_in(target)) > 3

    stop_midway(kill, is_midway, lambda: shutil.rmtree(target), redis.address, "./back")
    with monkeypatch.context() as environ:
        environ.setenv("BUB_HOME", str(target))
        check_refusals(capsys, ["inbox", "list"], ["tape", "list"], ["run", "hello"])
    with pytest.raises(HalfCopyError):
        trio.run(Mailbox(inbox_file(target), tmp_path).open)

    again = bub(capsys, "store", "copy", redis.address, "./back")
    assert digest_in(again.out) == digest_in(there.out), again.err
    assert tapes_in(target) == tapes_in(home)
    monkeypatch.setenv("BUB_HOME", str(target))
    assert bub(capsys, "inbox", "list").code == 0


def test_ctrl_c_says_that_the_same_command_goes_on(
    home: Path, tmp_path: Path, redis: RedisServer, capsys: Capsys
) -> None:
    mark = Keys("bub", agent_of(tmp_path)).of_all("copying")
    code, said = stop_midway(
        lambda process: process.send_signal(signal.SIGINT),
        lambda: redis.ask("GET", mark) is not None,
        lambda: redis.ask("FLUSHALL"),
        *("files", redis.address),
    )
    assert code == 130
    assert said == "bub: stopped; give the same command again: it goes on where this one stopped\n"
    assert redis.ask("GET", mark) is not None
    assert bub(capsys, "store", "copy", "files", redis.address).code == 0
    assert redis.ask("GET", mark) is None


def test_a_store_that_dies_midway_is_said_and_the_copy_goes_on_when_it_is_back(
    home: Path, tmp_path: Path, capsys: Capsys
) -> None:
    tapes = Keys("bub", agent_of(tmp_path)).of_all("tapes")
    with serving_redis(appendonly=True, appendfsync="always", password="a secret") as redis:

        def kill_midway() -> None:
            while redis.ask("HLEN", tapes) < 3:
                time.sleep(0.001)
            redis.kill()

        killing = threading.Thread(target=kill_midway)
        killing.start()
        away = bub(capsys, "store", "copy", "files", redis.address)
        killing.join()
        assert away.code == 1
        assert "cannot be reached" in away.err
        assert "give the same command again" in away.err
        redis.start()
        again = bub(capsys, "store", "copy", "files", redis.address)
        assert f"{ENTRIES + 2:,} entries of 22 tapes" in again.out, again.err
        assert "secret" not in away.err + again.out + again.err


def test_a_redis_that_is_full_is_said_and_the_copy_goes_on_when_it_has_room(home: Path, capsys: Capsys) -> None:
    with serving_redis(maxmemory="1300kb") as redis:
        full = bub(capsys, "store", "copy", "files", redis.address)
        assert full.code == 1
        assert "the memory of redis://127.0.0.1" in full.err
        assert "give the same command again" in full.err
        redis.ask("CONFIG", "SET", "maxmemory", "0")
        assert f"{ENTRIES + 2:,} entries" in bub(capsys, "store", "copy", "files", redis.address).out


def test_a_disk_that_is_full_is_said_and_the_copy_goes_on_when_it_has_room(
    home: Path, tmp_path: Path, redis: RedisServer, capsys: Capsys
) -> None:
    assert bub(capsys, "store", "copy", "files", redis.address).code == 0
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, usual[1]))
    try:
        full = bub(capsys, "store", "copy", redis.address, "./back")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert full.code == 1
    assert "cannot be used" in full.err
    assert "give the same command again" in full.err
    assert f"{ENTRIES + 2:,} entries" in bub(capsys, "store", "copy", redis.address, "./back").out
    assert tapes_in(tmp_path / "back") == tapes_in(home)
