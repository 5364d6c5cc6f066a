"""A channel on asyncio beside Telegram in one gateway, which is killed, reloaded, and whose island is blocked.

The other channel blocks its loop for as long as there is a file `blocked` in the gateway's folder; then it makes a file
`begun`, too.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import sqlite3
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Protocol

from fakes.gateway import Running, gateway
from fakes.telegram import TOKEN, BotServer, private

MESSAGES = int(os.environ.get("BESIDE_MESSAGES", "8"))
"""How many are sent in all, about half of them on each side."""

ROUNDS = int(os.environ.get("BESIDE_ROUNDS", "0"))
"""How often the gateway loads its file again, has its island blocked, and is killed; then it is blocked once more."""

SHARE = -(-MESSAGES // (10 * ROUNDS + 4))
CHATS = 4
WHO_WAITS = range(2000, 2040)
"""People who wait for each answer; so many, since Telegram takes one message a second for a chat."""

MARK = re.compile(r"#\d+#")
PATIENCE = 60.0
LONGEST = 60.0 + 2 * MESSAGES
LONGEST_TEST = 120 + 2 * MESSAGES
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
plugins: {{{name}: {plugin}, brain: {{path: brain.py}}}}
profiles: {{default: {{plugins: [telegram, {name}, brain]}}}}
settings:
  telegram: {{token: "{token}", allow_users: ["*"], base_url: "{address}", stream: false}}
  {name}: {settings}
  gateway: {{debounce: 50ms, max_wait: 200ms}}
"""


class Other(Protocol):
    """The service that the other channel is connected to, and how that channel gets into a gateway."""

    name: str
    plugin: str
    """Its entry in `plugins:`."""

    settings: str
    files: Mapping[str, str]
    """What lies in the gateway's folder; what comes behind `BRAIN` in its file is under that file's name."""

    environment: Mapping[str, str]

    def say(self, text: str, chat: str) -> None:
        """Somebody writes."""

    @property
    def is_connected(self) -> bool:
        """Whether a gateway is there."""

    @property
    def unconfirmed(self) -> Collection[str]:
        """The messages that no gateway has confirmed; the service sends them again."""

    @property
    def repeated(self) -> Collection[str]:
        """The messages that the service has sent more than once."""

    @property
    def posts(self) -> Collection[str]:
        """The replies."""


class Beside:
    """Both services with what was said to them, and when each person on Telegram asked what is to be answered soon."""

    def __init__(self, bots: BotServer, other: Other, folder: Path) -> None:
        self.bots = bots
        self.other = other
        self.folder = folder
        self.on_other: list[str] = []
        self.on_telegram: list[tuple[int, str]] = []
        self.lost: set[str] = set()
        """What a channel had confirmed, and Bub did not have yet when it was killed."""
        self._asked: dict[str, tuple[str, float]] = {}
        self._numbers = iter(range(1, 10**6))
        self._chance = random.Random(19)
        self._who_waits = itertools.cycle(WHO_WAITS)

    def say_on_other(self) -> None:
        mark = f"#{next(self._numbers)}#"
        self.on_other.append(mark)
        self.other.say(f"hello {mark}", str(self._chance.randrange(CHATS)))

    def say_on_telegram(self, person: int | None = None) -> str:
        person = 1000 + self._chance.randrange(CHATS) if person is None else person
        mark = f"#{next(self._numbers)}#"
        user = {"id": person, "is_bot": False, "first_name": "P"}
        self.on_telegram.append((person, mark))
        self.bots.say(mark, chat=private(user), user=user)
        return mark

    def ask_on_telegram(self, when: str) -> None:
        """Say something, and wait for the answer."""
        person, began = next(self._who_waits), time.time()
        mark = self.say_on_telegram(person)
        self._asked[mark] = when, began
        wait_until(lambda: any(mark in one for one in self.bots.said(person)), f"an answer to {mark}")

    def answers(self) -> list[str]:
        """All that was answered on both sides."""
        people = {who for who, _ in self.on_telegram}
        return [*self.other.posts, *(one for person in people for one in self.bots.said(person))]

    def unanswered(self) -> set[str]:
        return {*self.on_other, *(mark for _, mark in self.on_telegram)} - marks_in(self.answers())

    def wait_for_answers(self) -> None:
        """Wait until all is answered but what is lost."""
        wait_until(lambda: not self.unanswered() - self.lost, "every message is answered")

    def note_kill(self) -> None:
        """Note what is lost with a gateway that was killed, before another one begins."""
        wait_until(lambda: not self.other.is_connected, "the killed gateway has hung up")
        confirmed = {*self.on_other} - marks_in(self.other.unconfirmed)
        self.lost |= (confirmed & self.unanswered()) - marks_in(kept_in(Path(os.environ["BUB_HOME"])))

    def took(self, when: str) -> list[float]:
        """Seconds from each question on Telegram to the moment when its answer arrived there, shortest first."""
        arrived: dict[str, float] = {}
        for call in self.bots.calls("sendMessage"):
            for mark in MARK.findall(call["params"]["text"]):
                arrived.setdefault(mark, call["at"])
        return sorted(arrived[mark] - at for mark, (then, at) in self._asked.items() if then == when)


def marks_in(texts: Collection[str]) -> set[str]:
    return {mark for text in texts for mark in MARK.findall(text)}


def kept_in(home: Path) -> list[str]:
    """What Bub's inbox keeps: messages that wait for a turn, and replies that wait for their delivery."""
    with sqlite3.connect(home / "tapes" / "inbox.db") as inbox:
        return [body for (body,) in inbox.execute("select body from messages union all select body from replies")]


def wait_until(found: Callable[[], object], what: str) -> None:
    """Wait until something is so; a channel that has failed several times is tried again only after a while."""
    deadline = time.monotonic() + PATIENCE
    while not found():
        assert time.monotonic() < deadline, f"this did not happen: {what}"
        time.sleep(0.05)


def live_beside(bots: BotServer, other: Other, folder: Path) -> Beside:
    """Let people write on both sides while the gateway has its troubles; what came of it, once all is answered.

    What a channel lost by itself, as `Beside.lost` has it, stays without an answer.
    """
    pipeline = PIPELINE.format(
        name=other.name, plugin=other.plugin, settings=other.settings, token=TOKEN, address=bots.address
    )
    brain = BRAIN + other.files.get("brain.py", "")
    for name, text in {**other.files, "pipelines.yaml": pipeline, "brain.py": brain}.items():
        (folder / name).write_text(text, encoding="utf-8")
    beside = Beside(bots, other, folder)
    for _ in range(ROUNDS):
        with gateway(folder, longest=LONGEST, **other.environment) as running:
            talk(beside)
            reload(running, beside)
            block(running, beside)
            beside.wait_for_answers()
            for _ in range(SHARE):  # what is on its way when it is killed is answered by the next one
                beside.say_on_telegram()
            for _ in range(SHARE):
                beside.say_on_other()
            running.end(signal.SIGKILL)
        beside.note_kill()
    with gateway(folder, longest=LONGEST, **other.environment) as running:
        block(running, beside)
        beside.wait_for_answers()
        assert running.end() == 0
    return beside


def check(beside: Beside) -> None:
    """No message had two turns that was sent once, and Telegram waited for nobody. Prints the figures."""
    answers = beside.answers()
    turns = Counter(mark for answer in {*answers} for mark in MARK.findall(answer))
    twice = {mark for mark, times in turns.items() if times > 1}
    usual, blocked = beside.took("as usual"), beside.took("blocked")
    print(f"\n{len(beside.on_other)} messages on {beside.other.name}, {len(beside.on_telegram)} on Telegram,", end=" ")
    print(f"{ROUNDS} kills, {ROUNDS} reloads, {ROUNDS + 1} blocked islands; the load is {os.getloadavg()[0]:.1f}")
    print(f"{len(turns)} answered, {len(beside.lost)} lost by the channel, {len(answers) - len({*answers})} sent again")
    print(f"{len(beside.other.repeated)} sent by the service again, {len(twice)} of them had two turns")
    for when, took in (("as usual", usual), ("while the island is blocked", blocked)):
        print(f"Telegram's answers {when}: {len(took)}, {statistics.median(took):.2f} s, slowest {took[-1]:.2f} s")
    assert twice <= marks_in(beside.other.repeated)
    assert blocked[-1] < usual[-1] + NEVER_LATER


def talk(beside: Beside) -> None:
    for _ in range(SHARE):
        beside.say_on_other()
        beside.ask_on_telegram("as usual")


def reload(running: Running, beside: Beside) -> None:
    """Load the file again while both sides write."""
    talking = threading.Thread(target=talk, args=[beside])
    talking.start()
    running.send(signal.SIGHUP)
    talking.join()
    running.wait_for_log("pipeline.reloaded")


def block(running: Running, beside: Beside) -> None:
    """Block the island, and go on asking on Telegram; then let it go."""
    times = running.log.count("island.blocked")
    blocked, begun = (running.folder / name for name in ("blocked", "begun"))
    begun.unlink(missing_ok=True)
    blocked.touch()
    beside.say_on_other()
    running.until(begun.exists, "the island is blocked")
    for _ in range(SHARE):
        beside.say_on_other()
        beside.ask_on_telegram("blocked")
    while running.log.count("island.blocked") == times:
        beside.ask_on_telegram("blocked")
        time.sleep(0.2)
    blocked.unlink()
    running.wait_for_log("island.runs_again", times + 1)
    talk(beside)
