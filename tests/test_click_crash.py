"""The attack on a yes: the gateway is killed again and again between a click on Telegram and the reply.

Others click, too, and the file is changed while the gateway is dead. The Bot API server and the gateway are processes
of their own. How far the click has come at a kill is read from what the dead gateway left on the disk.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import TypeVar

import pytest
from fakes.office import ANONYMOUS, FRIENDS, Office
from fakes.telegram import ADA, BOB, BOT, BotServer, serving_bots

T = TypeVar("T")

CLICKS = int(os.environ.get("CLICKS", "3"))
"""How often the gateway is killed; `make crash` does it 100 times."""

PHASES = (
    "the click is on its way",
    "the answer is stored",
    "the yes is spent, the call noted",
    "the tool runs",
    "the result is noted",
    "the result is on the tape",
    "the turn is over, the reply waits",
    "the reply is sent",
)
WAY, STORED, BEGUN, RUNS, NOTED, TAPED, OVER, SENT = range(len(PHASES))

_UNKNOWN = "nobody knows whether that call took effect"
_PATIENCE = 60.0


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BotServer]:
    with serving_bots(tmp_path_factory.mktemp("bots") / "state.db") as server:
        yield server


class Gateway:
    """A gateway in a process of its own, and what it leaves on the disk."""

    def __init__(self, office: Office) -> None:
        self.office = office
        self.start()

    def start(self) -> None:
        folder = self.office.folder
        command = [sys.executable, "-m", "bub", "--config", str(folder / "pipelines.yaml"), "gateway"]
        root = str(Path(__file__).parent.parent)
        env = {**os.environ, "BUB_HOME": str(folder / "home"), "PYTHONPATH": f"{root}:{root}/plugins"}
        with (folder / "gateway.log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=env)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def phase(self, what: str) -> int:
        """How far the click for a job has come, by what is on the disk and what Telegram got."""
        if any(f"did {what}" in one for one in self.office.server.said(FRIENDS["id"])):
            return SENT
        if self._count("inbox.db", "select count(*) from replies where body like ?", f"%did {what}%"):
            return OVER
        if self._count("tapes.db", "select count(*) from entries where payload like ?", f"%did {what}%"):
            return TAPED
        asked = "select {} from questions join calls using (workspace, turn) where asked like ?"
        if self._count("inbox.db", asked.format("max(ended)"), f"%what: {what}%"):
            return NOTED
        if what in self.office.done:
            return RUNS
        if self._count("inbox.db", asked.format("count(*)"), f"%what: {what}%"):
            return BEGUN
        stored = "select count(*) from questions where state = 'yes' and asked like ?"
        return STORED if self._count("inbox.db", stored, f"%what: {what}%") else WAY

    def _count(self, name: str, query: str, given: str) -> int:
        """Ask a copy, so that the gateway finds its files as the kill left them."""
        tapes, copy = self.office.folder / "home/tapes", self.office.folder / "copy"
        copy.mkdir(exist_ok=True)
        for file in (name, f"{name}-wal"):
            if (tapes / file).exists():
                shutil.copyfile(tapes / file, copy / file)
        with closing(sqlite3.connect(copy / name)) as db:
            return int(db.execute(query, (given,)).fetchone()[0] or 0)


@pytest.mark.timeout(90 + 20 * CLICKS)
def test_nothing_runs_twice_or_without_a_yes_whenever_kill_9_comes(tmp_path: Path, server: BotServer) -> None:
    chance = random.Random(os.environ.get("SEED", "18"))
    office = Office(tmp_path, server)
    gateway = Gateway(office)
    killed, changed_in, unknown = Counter[int](), 0, 0
    asks, aims = cycle(('"work.*"', "work.do")), cycle(range(OVER))
    try:
        moments = _measure(office)
        for number in range(CLICKS):
            what = f"job{number}."
            question = _ask(office, what)
            moment = moments.draw(chance, next(aims) if number % 3 else None)
            _press_all(office, question)
            time.sleep(moment)
            gateway.kill()
            phase = gateway.phase(what)
            killed[phase] += 1
            moments.learn(moment, phase)
            is_changed = chance.random() < 0.25
            if is_changed:  # the profile's rules are others now, so no yes to the old ones counts
                changed_in += phase < BEGUN
                office.write(ask=next(asks))
            gateway.start()
            if chance.random() < 0.5:
                office.press(question, yes=True, user=BOB)
                office.press(question, yes=True, user=ADA)  # a stale click
            told = _answer_no_to_what_is_asked_again(office, gateway, what, question)
            ran = office.done.count(what)
            assert ran <= 1, what
            if phase in (BEGUN, RUNS, NOTED):
                unknown += 1
                assert _UNKNOWN in told, (what, PHASES[phase], told)
            elif phase < BEGUN:
                assert ran == (not is_changed), (what, PHASES[phase], told)
            server.say(f"round {what} is over", chat=FRIENDS, user=BOB)
        # Without Ada's click nothing runs, whoever else clicks.
        question = _ask(office, "never")
        for somebody in (BOB, ANONYMOUS):
            office.press(question, yes=True, user=somebody)
        time.sleep(0.5)
    finally:
        gateway.kill()
    assert "never" not in office.done
    assert len(set(office.done)) == len(office.done)
    print(f"\n{CLICKS} clicks with kill -9: none ran twice or without a yes; at the kill,")
    for index, name in enumerate(PHASES):
        print(f"  {killed[index]:4}  {name}")
    print(f"{unknown} outcomes were told as unknown; {changed_in} yeses did not count, since the file had changed")


class _Moments:
    """When, in seconds after a click, each phase begins: measured, and corrected by where the kills fell."""

    def __init__(self, begins: list[float]) -> None:
        self._begins = begins

    def draw(self, chance: random.Random, aimed: int | None) -> float:
        """Draw a moment within a phase, or within all but the last ones, which are long."""
        first, last = (0.0, self._begins[OVER]) if aimed is None else self._begins[aimed : aimed + 2]
        return max(chance.uniform(first, last) + chance.gauss(0, 0.001), 0)

    def learn(self, moment: float, phase: int) -> None:
        """Move what a kill has shown to begin earlier or later, half of the way."""
        for index in range(1, len(PHASES)):
            begins = self._begins[index]
            if (begins > moment) == (index <= phase):
                self._begins[index] = (begins + moment) / 2
        self._begins.sort()


def _measure(office: Office) -> _Moments:
    """Measure how long after a click each phase begins, without a kill; of three clicks the median."""
    return _Moments([median(times) for times in zip(*(_rehearse(office, number) for number in range(3)), strict=True)])


def _rehearse(office: Office, number: int) -> list[float]:
    """Let a job be done, and return when its phases began; what has no date of its own is near what has."""
    what = f"rehearsal{number}."
    question = _ask(office, what)
    _press_all(office, question)
    clicked = time.time()
    _until(lambda: _replies(office, what))
    sent = max(call["at"] for call in office.server.calls("sendMessage") if f"did {what}" in str(call["params"]))
    with closing(sqlite3.connect(office.folder / "home/tapes/tapes.db")) as db:
        query = "select max(date) from entries where kind = ? and payload like ?"
        dates = [
            datetime.fromisoformat(db.execute(query, given).fetchone()[0]).timestamp()
            for given in (("event", '%"name":"approval"%'), ("tool_result", f"%did {what}%"))
        ]
    began, (answered, taped) = (office.folder / "done.txt").stat().st_mtime, dates
    office.server.say(f"round {what} is over", chat=FRIENDS, user=BOB)
    moments = [clicked, answered - 0.004, (answered + began) / 2, began, taped - 0.002, taped, (taped + sent) / 2, sent]
    return [one - clicked for one in sorted(moments)]


def _ask(office: Office, what: str) -> dict[str, object]:
    """Let Bob ask for a job, and return the bot's question about it."""
    office.server.say(f"/bub {what}", chat=FRIENDS, user=BOB)
    return _until(lambda: [one for one in office.questions() if f"what: {what}\n" in one["text"]])[-1]


def _press_all(office: Office, question: dict[str, object]) -> None:
    """Let those press Yes who may not, and then Ada, who may."""
    for somebody in (BOB, ANONYMOUS, ADA):
        office.press(question, yes=True, user=somebody)


def _answer_no_to_what_is_asked_again(office: Office, gateway: Gateway, what: str, question: dict[str, object]) -> str:
    """Let Ada, who said yes once, say no to each other question; return all that the bot said of the job."""
    deadline, told, pressed = time.monotonic() + _PATIENCE, "", {question["message_id"]}
    while True:
        assert time.monotonic() < deadline, (office.folder / "gateway.log").read_text()[-3000:]
        for again in office.questions():
            if f"what: {what}\n" in again["text"] and again["message_id"] not in pressed:
                pressed.add(again["message_id"])
                told += str(again["text"])
                office.press(again, yes=False, user=ADA)
        replies = _replies(office, what)
        if any(f"did {what}" in one or "said no" in one for one in replies):
            return told + "".join(replies)
        time.sleep(0.1)


def _replies(office: Office, what: str) -> list[str]:
    """What the bot has said since the round before, other than questions."""
    told: list[str] = []
    for one in office.server.messages(FRIENDS["id"]):
        text = str(one["message"].get("text"))
        if text.startswith("round "):
            told = []
        elif one["message"]["from"]["id"] == BOT["id"] and "may I call" not in text:
            told.append(text)
    return told


def _until(found: Callable[[], T]) -> T:
    deadline = time.monotonic() + _PATIENCE
    while not (value := found()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
    return value
