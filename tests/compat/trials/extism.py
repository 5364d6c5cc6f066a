"""bub-extism: a WebAssembly module answers in the model's place."""

from __future__ import annotations

import json

from tests.compat.services.wasm import assemble
from tests.compat.trial import Trial
from tests.compat.world import World


async def turn(world: World) -> None:
    module = world.folder / "echo.wasm"
    module.write_bytes(assemble("answer", "wasm was given: "))
    manifest = {"wasm": [{"path": str(module)}]}
    config = {"plugins": {"echo": {"manifest": manifest, "hooks": {"run_model": "answer"}}}}
    (world.bub_home / "extism.json").write_text(json.dumps(config))
    assert "echo" in await world.bub("extism", "list")
    answer = await world.run("hello wasm")
    assert "wasm was given: " in answer and "hello wasm" in answer and "bub.extism.v1" in answer, answer


TRIAL = Trial(
    package="bub-extism",
    plugin="extism",
    does="a function of a WebAssembly module gets the values of the turn, and answers",
    against="the real runtime Extism, with a module that was written for the trial",
    hooks=("register_cli_commands",),
    turn=turn,
)
