"""Nothing is lost and nothing is answered twice, though the gateway and Telegram's server are killed again and again.

`make load` does with 1,000 messages of 50 chats what the suite does with a few, and in bad weather with another 1,000
of 25 chats, with answers streamed and not.
"""

from __future__ import annotations

import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from fakes.command_line import SOURCES
from fakes.telegram import ADA, TOKEN, BotServer, private, serving_bots

from bub.inbox.mailbox import inbox_file

MESSAGES = int(os.environ.get("MESSAGES", "40"))
CHATS = int(os.environ.get("CHATS", "8"))
PATIENCE = 60.0 + MESSAGES / 2

MARK = re.compile(r"#\d+#")
ANSWER = re.compile(r"(?:#\d+# )+and that is all I have to say about it, [0-9a-f]{8}")

PLUGIN = """
import re
import uuid

import trio
from bub import hookimpl
from bub.streaming import AsyncStreamEvents, StreamEvent

@hookimpl
def run_model_stream(prompt):
    return AsyncStreamEvents(answer(prompt))

# The answer is another one each time it is made: a message that was answered twice would be seen to be.
"""

AT_LENGTH = """
async def answer(prompt):
    marks = re.findall(r"#\\d+#", prompt)
    for word in [*marks, *"and that is all I have to say about it,".split()]:
        await trio.sleep(0.15)
        yield StreamEvent.text(f"{word} ")
    yield StreamEvent.text(uuid.uuid4().hex[:8])
"""

WITHOUT_END = """
async def answer(prompt):
    yield StreamEvent.text("" if "#" in prompt else "bye")
    if "#" in prompt:
        await trio.sleep_forever()
"""

MOVED_CLOCK = """
# `bub` on a machine whose clock is off by as many seconds as the file `clock` says.
import datetime
import runpy
import sys
import time
from pathlib import Path

clock, real_time, real_datetime = Path(__file__).with_name("clock"), time.time, datetime.datetime

def ahead():
    return float(clock.read_text())

class Moved(real_datetime):
    @classmethod
    def now(cls, tz=None):
        return real_datetime.now(tz) + datetime.timedelta(seconds=ahead())

time.time = lambda: real_time() + ahead()
datetime.datetime = Moved
runpy.run_module("bub", run_name="__main__", alter_sys=True)
"""

PIPELINE = """
version: 1
extends: bub:default
plugins: {{echo: {{path: echo.py}}}}
profiles: {{default: {{plugins: [telegram, echo]}}}}
settings:
  telegram: {{token: "{token}", allow_users: ["*"], base_url: "{address}", stream: {stream}}}
  gateway: {{debounce: 100ms, max_wait: 1s}}
"""


class Gateway:
    """A `bub gateway` that is killed and started again."""

    def __init__(self, folder: Path, server: BotServer, *, stream: bool = True, answer: str = AT_LENGTH) -> None:
        self.folder = folder
        self.kills = self.starts = self.jumps = 0
        self.process: subprocess.Popen[bytes] | None = None
        (folder / "echo.py").write_text(dedent(PLUGIN + answer), encoding="utf-8")
        (folder / "bub_elsewhen.py").write_text(dedent(MOVED_CLOCK), encoding="utf-8")
        self.set_clock(0)
        self.pipeline = dedent(PIPELINE).format(token=TOKEN, address=server.address, stream=str(stream).lower())
        self.write(self.pipeline)

    def write(self, pipeline: str) -> None:
        (self.folder / "pipelines.yaml").write_text(pipeline, encoding="utf-8")

    def set_clock(self, ahead: float) -> None:
        """Set the clock of its machine, so many seconds ahead of what is right."""
        (self.folder / "clock.new").write_text(str(ahead), encoding="utf-8")
        (self.folder / "clock.new").rename(self.folder / "clock")

    @property
    def replies_put_off(self) -> int:
        """How many replies wait on the disk for a time of day."""
        return self._count("replies where not_before > 0")

    @property
    def last_attempts(self) -> int:
        """How many messages would be given up if it were killed now, since they were interrupted before."""
        return self._count("messages where attempts >= 3 and reason is null")

    def _count(self, which: str) -> int:
        with closing(sqlite3.connect(inbox_file(Path(os.environ["BUB_HOME"])), timeout=30)) as db:
            (count,) = db.execute(f"select count(*) from {which}").fetchone()
        return int(count)

    def reload(self, pipeline: str) -> None:
        """Let it load a file that may be bad; behind this, the file is the right one again."""
        assert self.process is not None
        self.wait_for("channels.running", self.starts)
        times = self.log.count("gateway.reloading")
        self.write(pipeline)
        self.process.send_signal(signal.SIGHUP)
        self.wait_for("gateway.reloading", times + 1)
        time.sleep(0.5)
        self.write(self.pipeline)

    def wait_for(self, words: str, times: int) -> None:
        deadline = time.monotonic() + 30
        while self.log.count(words) < times:
            assert time.monotonic() < deadline, f"not {times} times in the log: {words}\n{self.log[-4000:]}"
            time.sleep(0.05)

    def start(self) -> None:
        self.starts += 1
        command = [sys.executable, str(self.folder / "bub_elsewhen.py")]
        command += ["--config", str(self.folder / "pipelines.yaml"), "gateway"]
        with (self.folder / "gateway.log").open("ab") as log:
            environment = {**os.environ, "PYTHONPATH": SOURCES}
            self.process = subprocess.Popen(command, cwd=self.folder, env=environment, stdout=log, stderr=log)

    def end(self, how: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(how)
        self.process.wait(30)
        self.kills += how == signal.SIGKILL

    def stop(self) -> None:
        """End it if it still runs, whatever became of the test."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    @property
    def log(self) -> str:
        return (self.folder / "gateway.log").read_text(encoding="utf-8", errors="replace")


def wait_until(found: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not found():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def a_person(number: int) -> dict[str, Any]:
    return {"id": number, "is_bot": False, "first_name": f"P{number}"}


@pytest.mark.timeout(240 + 4 * MESSAGES)  # `make load` sends 1,000
def test_C27_nothing_is_lost_or_answered_twice_whoever_is_killed(tmp_path: Path) -> None:
    chance = random.Random(os.environ.get("SEED", "6"))
    people = [a_person(1000 + number) for number in range(CHATS)]
    asked: dict[int, list[str]] = {person["id"]: [] for person in people}
    before_each_kill: list[dict[int, list[str]]] = []
    with serving_bots(tmp_path / "telegram.json") as server:
        gateway = Gateway(tmp_path, server)
        gateway.start()
        try:
            for number in range(MESSAGES):
                person = chance.choice(people)
                mark = f"#{number}#"
                asked[person["id"]].append(mark)
                server.say(f"what about {mark}?", chat=private(person), user=person)
                time.sleep(chance.expovariate(10))
                if number % 10 == 9:
                    # Interrupted three times, a turn would be given up: who was interrupted twice is waited for.
                    time.sleep(chance.uniform(0, 2.5))
                    wait_for_answers(server, before_each_kill[-2] if before_each_kill[1:] else {})
                    gateway.end(signal.SIGKILL)
                    before_each_kill.append({chat: list(marks) for chat, marks in asked.items()})
                    if chance.random() < 0.5:
                        server.kill()
                        server.start()
                    gateway.start()
            open_ones = wait_for_answers(server, asked)
            gateway.end(signal.SIGTERM)
        finally:
            gateway.stop()
        assert not open_ones, f"never answered: {open_ones}\n{gateway.log[-4000:]}"
        said = {person["id"]: server.said(person["id"]) for person in people}
    print(f"{MESSAGES} messages of {CHATS} chats, {gateway.kills} kills")
    assert [problem for chat, replies in said.items() for problem in problems_of(chat, replies, asked[chat])] == []


def test_a_process_that_is_killed_behind_a_turn_without_a_reply_leaves_no_placeholder(tmp_path: Path) -> None:
    with serving_bots(tmp_path / "telegram.db") as server:
        gateway = Gateway(tmp_path, server, answer=WITHOUT_END)
        gateway.start()
        try:
            server.say("what about #1#?")
            wait_until(lambda: server.said(ADA["id"]) == ["…"])
            server.fault("deleteMessage", hold=True)
            server.say(",quit")
            wait_until(lambda: server.calls("deleteMessage"))
            gateway.end(signal.SIGKILL)
            assert server.said(ADA["id"]) == ["…"]
            gateway.start()
            wait_until(lambda: server.said(ADA["id"]) == ["bye"])
        finally:
            gateway.stop()


# In bad weather.

FAULTY_CHATS = int(os.environ.get("FAULTY_CHATS", "3"))
FAULTY_MESSAGES = int(os.environ.get("FAULTY_MESSAGES", "2"))
"""How many messages each chat sends."""
KILLS = int(os.environ.get("KILLS", "1"))
"""How often the gateway is killed, and how often it loads a file again, good or bad."""

GONE_WRONG: list[dict[str, Any]] = [
    {"status": 500, "description": "Internal Server Error"},
    {"status": 502, "body": "<html>Bad Gateway</html>"},
    {"status": 429, "description": "Too Many Requests: retry after 1", "parameters": {"retry_after": 1}},
    {"cut": "before"},
    {"cut": "after"},
    {"cut": "within"},
    {"late": 1.5},
]
WEATHER = {
    "rest": GONE_WRONG,
    "getUpdates": [*GONE_WRONG, {"status": 409, "description": "Conflict: terminated by other getUpdates request"}],
}


@pytest.mark.timeout(480 + 2 * FAULTY_CHATS * FAULTY_MESSAGES)
@pytest.mark.parametrize("stream", [True, False], ids=["streams", "at once"])
def test_C27_in_bad_weather_nothing_is_lost_said_twice_or_out_of_order(tmp_path: Path, stream: bool) -> None:
    chance = random.Random(os.environ.get("SEED", "14"))
    people = [a_person(2000 + number) for number in range(FAULTY_CHATS)]
    left = [person for person in people for _ in range(FAULTY_MESSAGES)]
    chance.shuffle(left)
    asked: dict[int, list[str]] = {person["id"]: [] for person in people}
    every = len(left) // (KILLS + 1)
    with serving_bots(tmp_path / "telegram.db") as server:
        server.number_together()
        server.weather(0.1, chance.randrange(1000), **WEATHER)
        gateway = Gateway(tmp_path, server, stream=stream)
        gateway.start()
        try:
            for number, person in enumerate(left, 1):
                mark = f"#{number}#"
                asked[person["id"]].append(mark)
                server.say(f"what about {mark}?", chat=private(person), user=person)
                time.sleep(chance.expovariate(max(4, FAULTY_CHATS / 3)))
                if number % every == every * 3 // 4:
                    jump(gateway, server)
                if number % every == every // 2:
                    # One that is fine, one that a person has not finished writing, one whose stage nobody knows.
                    gateway.reload(
                        gateway.pipeline + chance.choice(["# fine", "profiles: {{", "stages: {nonsense: {}}"])
                    )
                    server.redeliver(5)
                if number % every == 0 and gateway.kills < KILLS:
                    server.fault("getUpdates", status=401, description="Unauthorized")
                    gateway.wait_for("channels.running", gateway.starts)
                    time.sleep(chance.uniform(0, 2.5))
                    wait_until(lambda: not gateway.last_attempts)
                    gateway.end(signal.SIGKILL)
                    gateway.start()
            # A reply that was put off when the clock was ahead waits for up to five minutes after a restart.
            open_ones = wait_for_answers(server, asked, 360 + FAULTY_MESSAGES * 3)
            gateway.end(signal.SIGTERM)
        finally:
            gateway.stop()
        assert not open_ones, f"never answered: {open_ones}\n{gateway.log[-4000:]}"
        said = {person["id"]: server.said(person["id"]) for person in people}
        calls = Counter(call["method"] for call in server.calls())
    everything = [reply for replies in said.values() for reply in replies]
    strays = everything.count("…")
    repeats = len(everything) - strays - len({*everything} - {"…"})
    print(f"{len(left)} messages of {FAULTY_CHATS} chats, {gateway.kills} kills, {gateway.jumps} jumps", end=", ")
    print(f"{repeats} repeated, {strays} placeholders left; {dict(calls)}")
    assert [problem for chat, replies in said.items() for problem in problems_of(chat, replies, asked[chat])] == []


HOURS = 6 * 3_600.0
PAUSE = {"status": 429, "description": "Too Many Requests: retry after 6", "parameters": {"retry_after": 6}}


def jump(gateway: Gateway, server: BotServer) -> None:
    """Set the clock forward, or back if it is ahead, while replies wait for their time."""
    while not gateway.replies_put_off:
        for method in ("sendMessage", "editMessageText"):
            server.fault(method, **PAUSE)
        time.sleep(0.3)
    server.forgive()
    gateway.jumps += 1
    gateway.set_clock(HOURS if gateway.jumps % 2 else 0)


def problems_of(chat: int, replies: list[str], asked: list[str]) -> list[str]:
    """What is wrong in a chat: each reply is a whole answer and comes once, each question has one, in order."""
    problems = [f"{chat}: no answer: {reply!r}" for reply in replies if not ANSWER.fullmatch(reply)]
    problems += [f"{chat}: said twice: {reply!r}" for reply, times in Counter(replies).items() if times > 1]
    in_order = [mark for reply in dict.fromkeys(replies) for mark in MARK.findall(reply)]
    if in_order != asked:
        problems.append(f"{chat}: {in_order} instead of {asked}")
    return problems


def wait_for_answers(server: BotServer, asked: dict[int, list[str]], patience: float = PATIENCE) -> list[str]:
    """Wait until these messages are answered; those that are not by then are returned."""
    deadline = time.monotonic() + patience
    while (waiting := unanswered(server, asked)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return waiting


def unanswered(server: BotServer, asked: dict[int, list[str]]) -> list[str]:
    """The messages that no finished answer is about yet."""
    waiting = []
    for chat, marks in asked.items():
        done = {mark for reply in server.said(chat) if ANSWER.fullmatch(reply) for mark in MARK.findall(reply)}
        waiting += [mark for mark in marks if mark not in done]
    return waiting
