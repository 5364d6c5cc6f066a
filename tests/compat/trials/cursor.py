"""bub-cursor: the program `cursor-agent` is the model, and a conversation is gone on with."""

from __future__ import annotations

import json

from tests.compat.trial import Trial
from tests.compat.world import World

CURSOR = """
import json, pathlib, sys
if sys.argv[1] == "status":
    print("Logged in as ada@example.com")
else:
    pathlib.Path("asked.json").write_text(json.dumps(sys.argv[1:]))
    print(json.dumps({"type": "result", "is_error": False, "result": "Cursor has answered.", "session_id": "c-1"}))
"""


async def turn(world: World) -> None:
    world.put("cursor-agent", CURSOR)
    assert "Cursor has answered." in await world.run("hello Cursor")
    asked = json.loads((world.workspace / "asked.json").read_text())
    assert asked[0] == "-p" and "hello Cursor" in asked[1] and asked[2:] == ["--output-format", "json"], asked
    await world.run("once more")
    assert json.loads((world.workspace / "asked.json").read_text())[0] == "--resume=c-1"


TRIAL = Trial(
    package="bub-cursor",
    plugin="cursor",
    does="`cursor-agent` says who is logged in, and answers; a second turn continues the session of `cursor-agent`",
    against="a fake of the program `cursor-agent` on the PATH",
    hooks=("run_model",),
    turn=turn,
)
