"""A channel on asyncio beside Telegram in one gateway, which is killed, reloaded, and whose island is blocked.

Nothing is lost on either side, each message has one turn, and a blocked island holds up no answer on Telegram.
`make beside` does with 1,000 messages what the suite does with a few.
"""

from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.gateway import Running, gateway
from fakes.telegram import TOKEN, BotServer, private, serving_bots
from fakes.wire import Service, serving_wire

MESSAGES = int(os.environ.get("BESIDE_MESSAGES", "8"))
"""How many are sent in all, about half of them on each side."""

ROUNDS = int(os.environ.get("BESIDE_ROUNDS", "0"))
"""How often the gateway loads its file again, has its island blocked, and is killed; then it is blocked once more."""

CHATS = 4
MARK = re.compile(r"#\d+#")
PATIENCE = 60.0
LONGEST = 60.0 + 2 * MESSAGES
NEVER_LATER = 1.0
"""How many seconds longer than usual an answer on Telegram may take while the island is blocked."""

BRAIN = """
import re
import uuid
from bub import hookimpl

@hookimpl
def run_model(prompt):
    # Another answer each time it is made: a message that had two turns would be seen to have had them.
    return f"{''.join(re.findall('#[0-9]+#', prompt))} {uuid.uuid4().hex[:8]}"
"""

PIPELINE = """
version: 1
extends: bub:default
plugins: {{wire: {{path: wire.py, runtime: asyncio}}, brain: {{path: brain.py}}}}
profiles: {{default: {{plugins: [telegram, wire, brain]}}}}
settings:
  telegram: {{token: "{token}", allow_users: ["*"], base_url: "{address}", stream: false}}
  gateway: {{debounce: 50ms, max_wait: 200ms}}
"""


class Beside:
    """Both services with what was said to them, and how long Telegram's answers took while the gateway ran."""

    def __init__(self, bots: BotServer, wire: Service) -> None:
        self.bots = bots
        self.wire = wire
        self.on_wire: list[str] = []
        self.on_telegram: list[tuple[int, str]] = []
        self.took: dict[str, list[float]] = {"as usual": [], "blocked": []}
        self._numbers = iter(range(1, 10**6))
        self._chance = random.Random(19)

    def say_on_wire(self, word: str = "") -> None:
        mark = f"#{next(self._numbers)}#"
        self.on_wire.append(mark)
        self.wire.say(f"{word} {mark}", f"c{self._chance.randrange(CHATS)}")

    def say_on_telegram(self) -> tuple[int, str]:
        person, mark = 1000 + self._chance.randrange(CHATS), f"#{next(self._numbers)}#"
        user = {"id": person, "is_bot": False, "first_name": "P"}
        self.on_telegram.append((person, mark))
        self.bots.say(mark, chat=private(user), user=user)
        return person, mark

    def ask_on_telegram(self, when: str) -> None:
        """Say something, and note how long the answer takes."""
        began = time.monotonic()
        person, mark = self.say_on_telegram()
        wait_until(lambda: any(mark in one for one in self.bots.said(person)), f"an answer to {mark}")
        self.took[when].append(time.monotonic() - began)

    def answers(self) -> list[str]:
        """All that was answered on both sides."""
        posts = [post for chat in list(self.wire.posts) for post in self.wire.posts[chat]]
        return [*posts, *(one for person in {who for who, _ in self.on_telegram} for one in self.bots.said(person))]

    def unanswered(self) -> set[str]:
        marks = {*self.on_wire, *(mark for _, mark in self.on_telegram)}
        return marks - {mark for answer in self.answers() for mark in MARK.findall(answer)}


def wait_until(found: Callable[[], object], what: str) -> None:
    """Wait until something is so; a channel that has failed several times is tried again only after a while."""
    deadline = time.monotonic() + PATIENCE
    while not found():
        assert time.monotonic() < deadline, f"this did not happen: {what}"
        time.sleep(0.05)


@pytest.mark.timeout(120 + 2 * MESSAGES)
def test_nothing_is_lost_and_telegram_waits_for_no_blocked_island(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    state = tmp_path_factory.mktemp("bots") / "state.db"
    with serving_bots(state) as bots, serving_wire() as wire:
        pipeline = PIPELINE.format(token=TOKEN, address=bots.address)
        for name, text in {"pipelines.yaml": pipeline, "brain.py": BRAIN, "wire.py": wire.plugin}.items():
            (folder / name).write_text(text, encoding="utf-8")
        beside = Beside(bots, wire)
        share = max(MESSAGES // (10 * ROUNDS + 4), 1)
        for _ in range(ROUNDS):
            with gateway(folder, longest=LONGEST) as running:
                talk(beside, share)
                reload(running, beside, share)
                block(running, folder, beside, share)
                for _ in range(share):  # what is on its way when it is killed is answered by the next one
                    beside.say_on_wire()
                    beside.say_on_telegram()
                running.end(signal.SIGKILL)
        with gateway(folder, longest=LONGEST) as running:
            block(running, folder, beside, share)
            wait_until(lambda: not beside.unanswered(), "every message is answered")
            assert running.end() == 0
        answers = beside.answers()
    turns = Counter(mark for answer in {*answers} for mark in MARK.findall(answer))
    assert [mark for mark, times in turns.items() if times > 1] == []
    usual, blocked = (max(beside.took[when]) for when in ("as usual", "blocked"))
    repeated = len(answers) - len({*answers})
    print(f"{len(turns)} messages, {ROUNDS} kills, {repeated} replies sent again;", end=" ")
    print(f"Telegram's slowest answer took {usual:.2f} s, with a blocked island {blocked:.2f} s")
    assert blocked < usual + NEVER_LATER


def talk(beside: Beside, share: int) -> None:
    for _ in range(share):
        beside.say_on_wire()
        beside.ask_on_telegram("as usual")


def reload(running: Running, beside: Beside, share: int) -> None:
    """Load the file again while both sides write."""
    talking = threading.Thread(target=talk, args=[beside, share])
    talking.start()
    running.send(signal.SIGHUP)
    talking.join()
    running.wait_for_log("pipeline.reloaded")


def block(running: Running, folder: Path, beside: Beside, share: int) -> None:
    """Block the island, and go on asking on Telegram; then let it go."""
    times = running.log.count("island.blocked")
    free = f"free{len(beside.on_wire)}"
    beside.say_on_wire(f"block {free}")
    for _ in range(share):
        beside.say_on_wire()
        beside.ask_on_telegram("blocked")
    while running.log.count("island.blocked") == times:
        beside.ask_on_telegram("blocked")
    (folder / free).touch()
    running.wait_for_log("island.runs_again", times + 1)
    talk(beside, share)
