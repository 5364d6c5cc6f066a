"""bub-tapestore-sqlalchemy: a conversation is kept in its store, and remembered."""

from __future__ import annotations

import sqlite3

from tests.compat.services.model import ANSWER
from tests.compat.trial import Trial
from tests.compat.world import World


async def turn(world: World) -> None:
    assert ANSWER in await world.run("my name is Ada")
    await world.run("who am I?")
    assert "my name is Ada" in str(world.model.requests[1]["messages"]), "the first turn was not remembered"
    count = sqlite3.connect(world.bub_home / "tapes.db").execute("SELECT count(*) FROM tape_entries").fetchone()[0]
    assert count > 4, count


TRIAL = Trial(
    package="bub-tapestore-sqlalchemy",
    plugin="tapestore-sqlalchemy",
    does="a second turn, in another process, remembers the first",
    against="the real SQLAlchemy, with SQLite",
    answers={"configure_sqlalchemy_tape_store": True},
    asked=("echo",),
    hooks=("onboard_config", "provide_tape_store"),
    turn=turn,
)
