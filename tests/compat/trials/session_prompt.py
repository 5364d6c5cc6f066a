"""bub-session-prompt: a file of the session is part of the system prompt."""

from __future__ import annotations

from tests.compat.services.model import ANSWER, text_of
from tests.compat.trial import Trial
from tests.compat.world import World


async def turn(world: World) -> None:
    own = world.bub_home / "sessions" / "cli:local" / "AGENTS.md"
    own.parent.mkdir(parents=True)
    own.write_text("Speak like a pirate.")
    assert ANSWER in await world.run("hello")
    system = text_of(world.model.requests[0]["messages"][0])
    assert "<session_instruct>" in system and "Speak like a pirate." in system, system[-500:]


TRIAL = Trial(
    package="bub-session-prompt",
    plugin="session-prompt",
    does="the model gets the text of the session's own AGENTS.md",
    against="a fake model",
    hooks=("system_prompt",),
    turn=turn,
)
