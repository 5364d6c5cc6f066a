"""bub-codex: the program `codex` is the model, and a conversation is gone on with."""

from __future__ import annotations

import json

from tests.compat.trial import Trial
from tests.compat.world import World

CODEX = """
import json, pathlib, sys
pathlib.Path("asked.json").write_text(json.dumps(sys.argv[1:]))
print("Codex has answered.")
print("session id: 0199-abc", file=sys.stderr)
"""


async def turn(world: World) -> None:
    world.put("codex", CODEX)
    assert "Codex has answered." in await world.run("hello Codex")
    asked = json.loads((world.workspace / "asked.json").read_text())
    assert asked[:3] == ["e", "--model", "gpt-5-codex"] and "hello Codex" in asked[-1], asked
    await world.run("once more")
    again = json.loads((world.workspace / "asked.json").read_text())
    assert again[:3] == ["e", "resume", "0199-abc"], again


TRIAL = Trial(
    package="bub-codex",
    plugin="codex",
    does="`codex` answers, and a second turn continues the session of `codex`",
    against="a fake of the program `codex` on the PATH",
    settings={"model": "gpt-5-codex"},
    hooks=("run_model",),
    turn=turn,
)
