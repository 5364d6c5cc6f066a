"""What a turn has made is gone when the turn is over, so that Python has next to no garbage to look for."""

from __future__ import annotations

import gc
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fakes.line import Line, lines, opened
from fakes.scripted import OPENAI
from fakes.talk import add, adding, bringing
from fakes.toys import Workshop

WARM, TURNS = 3, 20

MOST_FOR_A_REQUEST = 40
"""How many objects the cycle that httpx makes of a response reaches: 24, and in another version of it some more."""

MOST_FOR_A_TURN = 10
"""How many objects note what the turn does: each of them names its turn, and that lists them."""

OURS = {"Activities", "Activity", "Lent"}
"""What of Bub is among them; a `Lent` is the body of a response."""

PIPELINE = """
extends: bub:default
settings:
  model: "test:any"
  providers: {{test: {{api: openai, api_base: "{address}/v1", api_key: no-key}}}}
profiles: {{default: {{plugins: [office]}}}}
plugins: {{office: {{path: office.py}}}}
"""


def call_a_tool(number: int) -> str:
    return json.dumps([OPENAI.answer(calls=[add(number, 1)]), OPENAI.answer(f"It is {number + 1}.")])


TURNS_OF = {
    "a command": (lambda number: ",help", 0),
    "an answer": (lambda number: f"hello {number}", 1),
    "a call of a tool": (call_a_tool, 2),
}
"""What is said in each of some turns, and how many requests to the model that takes."""


async def left_by(turn: Callable[[int], Awaitable[Any]]) -> list[str]:
    """Take turns, and return the types of all that only a search for garbage finds."""
    for number in range(WARM):
        await turn(number)  # what is made once is no garbage
    gc.collect()
    gc.disable()
    try:
        for number in range(WARM, WARM + TURNS):
            await turn(number)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        return [f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.garbage]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def check(left: list[str], requests: int) -> None:
    assert {name.rpartition(".")[2] for name in left if name.startswith("bub.")} <= OURS
    assert not [name for name in left if name.startswith("httpcore._async.")], (
        "a response names the connection it came over"
    )
    assert len(left) / TURNS <= MOST_FOR_A_TURN + requests * MOST_FOR_A_REQUEST


@pytest.mark.anyio
@pytest.mark.parametrize("of", TURNS_OF)
async def test_a_turn_of_a_gateway_leaves_next_to_no_garbage(workshop: Workshop, address: str, of: str) -> None:
    line, (say, requests), added = Line(shows_questions=True), TURNS_OF[of], list[Any]()
    office = bringing(adding(added), provide_channels=lines(line))
    async with opened(workshop(PIPELINE.format(address=address), office=office)) as manager:

        async def turn(number: int) -> None:
            await line.say(say(number))
            await manager.settled()

        left = await left_by(turn)
    assert len(line.said) == WARM + TURNS
    assert len(added) == (WARM + TURNS if requests == 2 else 0)
    check(left, requests)


@pytest.mark.anyio
@pytest.mark.parametrize("of", TURNS_OF)
async def test_a_turn_of_a_program_leaves_next_to_no_garbage(workshop: Workshop, address: str, of: str) -> None:
    say, requests = TURNS_OF[of]
    framework = workshop(PIPELINE.format(address=address), office=bringing(adding()))

    async def turn(number: int) -> None:
        await framework.process_inbound({"channel": "cli", "chat_id": of, "content": say(number)})

    async with framework.running():
        left = await left_by(turn)
    check(left, requests)
