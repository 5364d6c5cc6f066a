"""bub-kimi: the program `kimi` is the model, and a conversation is gone on with."""

from __future__ import annotations

import json

from tests.compat.trial import Trial
from tests.compat.world import World

KIMI = """
import json, os, pathlib, sys
pathlib.Path("asked.json").write_text(json.dumps([*sys.argv[1:], os.environ.get("KIMI_MODEL_NAME")]))
print("Kimi has answered.")
print("To resume this session: kimi -r 5e55", file=sys.stderr)
"""


async def turn(world: World) -> None:
    world.put("kimi", KIMI)
    assert "Kimi has answered." in await world.run("hello Kimi")
    asked = json.loads((world.workspace / "asked.json").read_text())
    assert asked[:2] == ["--quiet", "-p"] and "hello Kimi" in asked[2] and asked[3] == "k2", asked
    await world.run("once more")
    again = json.loads((world.workspace / "asked.json").read_text())
    assert again[:3] == ["-r", "5e55", "--quiet"], again


TRIAL = Trial(
    package="bub-kimi",
    plugin="kimi",
    does="`kimi` answers, and a second turn continues the session of `kimi`",
    against="a fake of the program `kimi` on the PATH",
    settings={"model_name": "k2"},
    hooks=("run_model",),
    turn=turn,
)
