"""tape-dataset-opendal: the tapes are exported by its command."""

from __future__ import annotations

import json

from tests.compat.services.model import ANSWER
from tests.compat.trial import Trial
from tests.compat.world import World


async def turn(world: World) -> None:
    assert ANSWER in await world.run("export me")
    target = world.folder / "dataset"
    printed = await world.bub("tape-export", "--scheme", "fs", "--config", f"root={target}")
    report = json.loads(printed.strip().splitlines()[-1])
    assert report["tape_count"] == 1 and report["entry_count"] > 2, report
    written = "".join(each.read_text() for each in target.rglob("*.json*"))
    assert "export me" in written and ANSWER in written, sorted(target.rglob("*"))


TRIAL = Trial(
    package="tape-dataset-opendal",
    plugin="tape-dataset-opendal",
    does="the command of the package writes a tape as a data set",
    against="the real OpenDAL, which writes to a folder",
    hooks=("register_cli_commands",),
    turn=turn,
)
