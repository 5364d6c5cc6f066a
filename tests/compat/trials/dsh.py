"""bub-dsh: the harness' own program is started by its SDK, and asks a model."""

from __future__ import annotations

from tests.compat.services.model import ANSWER
from tests.compat.trial import Trial
from tests.compat.world import World


async def turn(world: World) -> None:
    world.root |= {"model": "dsh:deepseek-v4-flash"}
    answer = await world.run("hello DeepSeek")
    assert ANSWER in answer, answer
    assert "hello DeepSeek" in await world.model.asked()


TRIAL = Trial(
    package="bub-dsh",
    plugin="dsh",
    does="the harness, a program of DeepSeek's, asks the model, and streams the answer",
    against="the real harness from the wheel deepseek-harness-sdk 0.1.0rc7, with a fake model",
    needs=("deepseek-harness-sdk==0.1.0rc7",),
    hooks=("run_model_stream",),
    turn=turn,
)
