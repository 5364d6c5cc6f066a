"""Nothing is lost and nothing is answered twice, though the gateway and Telegram's server are killed again and again.

`make load` does with 1,000 messages of 50 chats what the suite does with a few.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from fakes.telegram import TOKEN, BotServer, private, serving_bots

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

# The answer is another one each time it is made: a message that was answered twice would be seen to be.
async def answer(prompt):
    marks = re.findall(r"#\\d+#", prompt)
    for word in [*marks, *"and that is all I have to say about it,".split()]:
        await trio.sleep(0.15)
        yield StreamEvent.text(f"{word} ")
    yield StreamEvent.text(uuid.uuid4().hex[:8])

@hookimpl
def run_model_stream(prompt):
    return AsyncStreamEvents(answer(prompt))
"""

PIPELINE = """
version: 1
extends: bub:default
plugins: {{echo: {{path: echo.py}}}}
profiles: {{default: {{plugins: [telegram, echo]}}}}
settings:
  telegram: {{token: "{token}", allow_users: ["*"], base_url: "{address}"}}
  gateway: {{debounce: 100ms, max_wait: 1s}}
"""


class Gateway:
    """A `bub gateway` that is killed and started again."""

    def __init__(self, folder: Path, server: BotServer) -> None:
        self.folder = folder
        self.kills = 0
        self.process: subprocess.Popen[bytes] | None = None
        (folder / "echo.py").write_text(dedent(PLUGIN), encoding="utf-8")
        text = dedent(PIPELINE).format(token=TOKEN, address=server.address)
        (folder / "pipelines.yaml").write_text(text, encoding="utf-8")

    def start(self) -> None:
        command = [sys.executable, "-m", "bub", "--config", str(self.folder / "pipelines.yaml"), "gateway"]
        with (self.folder / "gateway.log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)

    def end(self, how: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(how)
        self.process.wait(30)
        self.kills += how == signal.SIGKILL

    @property
    def log(self) -> str:
        return (self.folder / "gateway.log").read_text(encoding="utf-8", errors="replace")


def a_person(number: int) -> dict[str, Any]:
    return {"id": number, "is_bot": False, "first_name": f"P{number}"}


@pytest.mark.timeout(240 + 4 * MESSAGES)  # `make load` sends 1,000
def test_C27_nothing_is_lost_or_answered_twice_whoever_is_killed(tmp_path: Path) -> None:
    chance = random.Random(os.environ.get("SEED", "6"))
    people = [a_person(1000 + number) for number in range(CHATS)]
    asked: dict[int, list[str]] = {person["id"]: [] for person in people}
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
                    # Now at once, now when a turn had time to end: interrupted three times, it would be given up.
                    time.sleep(chance.uniform(0, 2.5) if number % 20 == 9 else chance.uniform(4, 6))
                    gateway.end(signal.SIGKILL)
                    if chance.random() < 0.5:
                        server.kill()
                        server.start()
                    gateway.start()
            deadline = time.monotonic() + PATIENCE
            while (open_ones := unanswered(server, asked)) and time.monotonic() < deadline:
                time.sleep(0.5)
            gateway.end(signal.SIGTERM)
        finally:
            if gateway.process is not None and gateway.process.poll() is None:
                gateway.process.kill()
                gateway.process.wait()
        assert not open_ones, f"never answered: {open_ones}\n{gateway.log[-4000:]}"
        said = {person["id"]: server.said(person["id"]) for person in people}
    repeats = 0
    for chat, replies in said.items():
        for reply in replies:
            assert ANSWER.fullmatch(reply) or reply == "…", f"neither an answer nor a placeholder: {reply!r}"
        answers = [reply for reply in replies if reply != "…"]
        forms: dict[str, set[str]] = {}
        for reply in answers:
            for mark in MARK.findall(reply):
                forms.setdefault(mark, set()).add(reply)
        assert {mark: texts for mark, texts in forms.items() if len(texts) > 1} == {}, "answered with different texts"
        times = Counter(answers)
        repeats += sum(times.values()) - len(times)
        in_order = [mark for reply in dict.fromkeys(answers) for mark in MARK.findall(reply)]
        assert in_order == asked[chat]
    assert repeats <= gateway.kills
    print(f"{MESSAGES} messages of {CHATS} chats, {gateway.kills} kills, {repeats} repeated replies")


def unanswered(server: BotServer, asked: dict[int, list[str]]) -> list[str]:
    """The messages that no finished answer is about yet."""
    waiting = []
    for chat, marks in asked.items():
        done = {mark for reply in server.said(chat) if ANSWER.fullmatch(reply) for mark in MARK.findall(reply)}
        waiting += [mark for mark in marks if mark not in done]
    return waiting
