"""bub-tapestore-sqlite: a conversation is kept in its store, and remembered."""

from __future__ import annotations

import sqlite3

from tests.compat.services.model import ANSWER
from tests.compat.trial import Trial
from tests.compat.world import World


async def turn(world: World) -> None:
    assert ANSWER in await world.run("my name is Ada")
    await world.run("who am I?")
    assert "my name is Ada" in str(world.model.requests[1]["messages"]), "the first turn was not remembered"
    count = sqlite3.connect(world.bub_home / "tapes.sqlite3").execute("SELECT count(*) FROM tape_entries").fetchone()[0]
    assert count > 4, count


TRIAL = Trial(
    package="bub-tapestore-sqlite",
    plugin="tapestore-sqlite",
    does="a second turn, in another process, remembers the first",
    against="the real SQLite",
    answers={"configure_sqlite_tape_store": True},
    asked=("journal_mode", "synchronous"),
    hooks=("onboard_config", "provide_tape_store"),
    turn=turn,
)
