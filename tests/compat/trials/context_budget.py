"""bub-context-budget: a conversation over its budget tells the model to hand over."""

from __future__ import annotations

from tests.compat.services.model import ANSWER
from tests.compat.trial import Trial
from tests.compat.world import World


async def turn(world: World) -> None:
    assert ANSWER in await world.run("hello " * 200)
    assert "<context_budget_exceeded>" in str(world.model.requests[0]["messages"]), "the model was not told"


TRIAL = Trial(
    package="bub-context-budget",
    plugin="context-budget",
    does="if a request has too many tokens, the package tells the model to call tape.handoff first",
    against="a fake model; a plugin gives tiktoken a simple encoding, because tiktoken downloads its own",
    settings={"max_context_tokens": 16484, "encoding_name": "compat_bytes"},
    hooks=("after_llm_call", "before_llm_call"),
    turn=turn,
)
