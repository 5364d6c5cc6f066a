"""A gateway that is killed at the second of firing: a real process, a real file, `kill -9`."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest
from fakes.command_line import ROOT, SOURCES
from fakes.gateway import FILES, gateway

from bub.inbox.file import inbox_file

KILLS = int(os.environ.get("SCHEDULE_KILLS", "1"))
"""How many moments the gateway is killed at; `make crash` takes more."""

PIPELINE = """
version: 1
extends: bub:default
settings: {gateway: {shutdown_grace: 10s}}
schedules: {tick: {cron: "* * * * *", message: wait go, session: "post:1"}}
plugins: {post: {path: post.py}, brain: {path: brain.py}}
profiles: {default: {plugins: [post, brain]}}
"""

BRAIN = """
from pathlib import Path
import trio
from bub import hookimpl

class Brain:
    @hookimpl
    async def run_model(self, prompt):
        Path("begun").touch()
        while not Path("go").exists():
            await trio.sleep(0.01)
        return "done"

plugin = Brain
"""


@pytest.mark.timeout(60 + 15 * KILLS)
def test_a_gateway_that_is_killed_at_the_second_of_firing_fires_once(tmp_path: Path) -> None:
    chance = random.Random(19)
    for number in range(KILLS):
        # Around the moment: before it is claimed, while it is, and in the turn that answers it.
        offset = (0.0, 0.3)[number] if number < 2 else chance.uniform(-0.05, 0.25)
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, text in {**FILES, "brain.py": BRAIN, "pipelines.yaml": PIPELINE}.items():
            (folder / name).write_text(text, encoding="utf-8")
        fires_once(folder, offset)


def fires_once(folder: Path, offset: float) -> None:
    home, clock = folder / "home", folder / "ahead"
    moment = 60.0 * (time.time() // 60 + 10)
    set_clock(clock, moment - 30)
    how = {"AHEAD": str(clock), "BUB_HOME": str(home), "PYTHONPATH": f"{SOURCES}{os.pathsep}{ROOT / 'tests'}"}
    with gateway(folder, module="fakes.ahead", **how) as running:
        running.until(lambda: read(home, "select since from schedules"), "it follows the schedule")
        set_clock(clock, moment - 0.5)
        time.sleep(0.5 + offset)
        running.end(signal.SIGKILL)
    killed_in_the_turn = (folder / "begun").exists()
    with gateway(folder, module="fakes.ahead", **how) as running:
        running.until(lambda: fired(home) == [moment], "it fires")
        running.until((folder / "begun").exists, "it is answered")
        if not killed_in_the_turn:
            running.end(signal.SIGKILL)
    with gateway(folder, "--listen", "127.0.0.1:0", module="fakes.ahead", **how) as running:
        (folder / "go").touch()
        assert running.reply(1) == "done"
        health = running.health["schedules"]["tick"]
        assert datetime.fromisoformat(health["last"]).timestamp() == moment
        assert datetime.fromisoformat(health["next"]).timestamp() > moment
        assert health["missed"] == 0
        assert "# TYPE bub_schedule_moments" in running.ask("/metrics").text
        time.sleep(1.2)  # until it has looked again
        assert running.process.poll() is None
    assert fired(home) == [moment]
    assert [content for _, content in running.replies] == ["done"]


def set_clock(clock: Path, now: float) -> None:
    """Let the gateway's clock say this now."""
    beside = clock.with_suffix(".new")
    beside.write_text(str(now - time.time()))
    beside.replace(clock)


def fired(home: Path) -> list[float]:
    return read(home, "select at from firings")


def read(home: Path, statement: str) -> list[float]:
    file = inbox_file(home)
    if not file.exists():
        return []
    with closing(sqlite3.connect(file)) as db:
        try:
            return [value for (value,) in db.execute(statement).fetchall()]
        except sqlite3.OperationalError:  # there is no such table yet
            return []
