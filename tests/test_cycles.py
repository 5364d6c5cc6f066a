"""What a turn has made is gone when the turn is over, so that Python has next to no garbage to look for."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
from fakes.line import Line, lines, opened
from fakes.scripted import OPENAI, refusal
from fakes.talk import add, adding, bringing
from fakes.toys import Workshop

from bub import BubFramework

WARM, TURNS = 3, 20

MOST_FOR_A_REQUEST = 40
"""How many objects the cycle that httpx makes of a response reaches: 24, and in another version of it some more."""

MOST_FOR_A_TURN = 10
"""How many objects note what the turn does: each of them names its turn, and that lists them."""

OURS = {"Activities", "Activity", "Lent"}
"""What of Bub is among them; a `Lent` is the body of a response."""

PIPELINE = """
extends: bub:{pipeline}
settings:
  model: "test:any"
  retries: 0
  providers: {{test: {{api: openai, api_base: "{address}/v1", api_key: no-key}}}}
profiles: {{default: {{plugins: [office]}}}}
plugins: {{office: {office}}}
{more}
"""


def call_a_tool(number: int) -> str:
    return json.dumps([OPENAI.answer(calls=[add(number, 1)]), OPENAI.answer(f"It is {number + 1}.")])


TURNS_OF = {
    "a command": (lambda number: ",help", 0),
    "an answer": (lambda number: f"hello {number}", 1),
    "a call of a tool": (call_a_tool, 2),
}
"""What is said in each of some turns, and how many requests to the model that takes."""


@dataclass(frozen=True)
class Failing:
    """A turn that fails: what its plugin does, what is said, and how many requests to the model that takes."""

    hooks: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    say: Callable[[int], str] = lambda number: f"hello {number}"
    requests: int = 0
    more: str = ""
    pipeline: str = "default"
    office: str = "{path: office.py}"


def fail() -> None:
    raise ValueError("nobody expected this")


async def take_long() -> None:
    await trio.sleep(10)


async def fail_on_asyncio(message: Any) -> None:
    await asyncio.sleep(0)
    fail()


def refuse(number: int) -> str:
    return json.dumps([refusal({"error": {"message": "broken"}}, 500)])


def break_off(number: int) -> str:
    return json.dumps([[*OPENAI.beginning("Hel"), {"cut": True}]])


def call_a_tool_again_and_again(number: int) -> str:
    return json.dumps([OPENAI.answer(calls=[add(1, 1)])])


BESIDE = """
hooks: {look_up: {kind: void, takes: [message]}}
stages:
  look_up: {after: resolve_session, on_failure: propagate}
  load_state: {needs: [resolve_session]}
  build_prompt: {needs: [load_state]}
  run_model: {needs: [look_up, build_prompt]}
"""

FAILING = {
    "the model has a problem": Failing(say=refuse, requests=1),
    "the model breaks off": Failing(say=break_off, requests=1),
    "a limit ends it": Failing(say=call_a_tool_again_and_again, requests=7),
    "no session is found": Failing({"resolve_session": lambda message: fail()}),
    "no prompt is built": Failing({"build_prompt": lambda message: fail()}),
    "a plugin's model fails": Failing({"run_model": lambda prompt: fail()}),
    "a plugin on asyncio fails": Failing(
        {"build_prompt": fail_on_asyncio}, office="{path: office.py, runtime: asyncio}"
    ),
    "a stage takes too long": Failing(
        {"build_prompt": lambda message: take_long()}, more="stages: {build_prompt: {timeout: 10ms}}"
    ),
    "a stage beside others fails": Failing({"look_up": lambda message: fail()}, more=BESIDE),
    "a plugin that hears of the message fails": Failing(
        {"message_received": lambda message: fail()},
        more="stages: {message_received: {on_failure: propagate}}",
        pipeline="ethos",
    ),
    "a reply is not amended": Failing(
        {"message_sending": lambda message: fail()},
        requests=1,
        more="stages: {message_sending: {on_failure: propagate}}",
        pipeline="ethos",
    ),
    "a clean-up fails": Failing(
        {"save_state": lambda state: fail()}, requests=1, more="stages: {save_state: {on_failure: propagate}}"
    ),
    "a point that the agent fires fails": Failing(
        {"before_llm_call": lambda request: fail()}, more="hooks: {before_llm_call: {on_failure: propagate}}"
    ),
    "a point that the agent fires takes too long": Failing(
        {"before_llm_call": lambda request: take_long()},
        more="hooks: {before_llm_call: {on_failure: propagate, timeout: 10ms}}",
    ),
}


def framework_that_fails(workshop: Workshop, address: str, how: Failing, **hooks: Any) -> BubFramework:
    text = PIPELINE.format(address=address, pipeline=how.pipeline, office=how.office, more=how.more)
    return workshop(text, office=bringing(adding(), **hooks, **how.hooks))


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
    async with opened(
        workshop(
            PIPELINE.format(address=address, pipeline="default", office="{path: office.py}", more=""), office=office
        )
    ) as manager:

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
    framework = workshop(
        PIPELINE.format(address=address, pipeline="default", office="{path: office.py}", more=""),
        office=bringing(adding()),
    )

    async def turn(number: int) -> None:
        await framework.process_inbound({"channel": "cli", "chat_id": of, "content": say(number)})

    async with framework.running():
        left = await left_by(turn)
    check(left, requests)


@pytest.mark.anyio
@pytest.mark.parametrize("why", FAILING)
async def test_a_turn_of_a_gateway_that_fails_leaves_no_more(workshop: Workshop, address: str, why: str) -> None:
    how, line = FAILING[why], Line()
    async with opened(framework_that_fails(workshop, address, how, provide_channels=lines(line))) as manager:

        async def turn(number: int) -> None:
            await line.say(how.say(number))
            await manager.settled()

        left = await left_by(turn)
    assert all("(error " in said for said in line.said)
    assert len(line.said) == WARM + TURNS
    check(left, how.requests)


@pytest.mark.anyio
@pytest.mark.parametrize("why", FAILING)
async def test_a_turn_of_a_program_that_fails_leaves_no_more(workshop: Workshop, address: str, why: str) -> None:
    how, failed = FAILING[why], 0
    framework = framework_that_fails(workshop, address, how)

    async def turn(number: int) -> None:
        nonlocal failed
        try:
            await framework.process_inbound({"channel": "cli", "chat_id": "1", "content": how.say(number)})
        except Exception:  # noqa: BLE001 (each fails in its own way)
            failed += 1

    async with framework.running():
        left = await left_by(turn)
    assert failed == WARM + TURNS
    check(left, how.requests)


@pytest.mark.anyio
async def test_a_plugin_that_cannot_say_what_becomes_of_a_message_leaves_no_more(workshop: Workshop) -> None:
    line = Line()
    hooks = {"admit_message": lambda message: fail(), "run_model": lambda prompt: "hello"}
    framework = workshop(office=bringing(provide_channels=lines(line), **hooks))
    async with opened(framework) as manager:

        async def turn(number: int) -> None:
            await line.say(f"hello {number}")
            await manager.settled()

        left = await left_by(turn)
    assert line.said == ["hello"] * (WARM + TURNS)
    check(left, 0)
