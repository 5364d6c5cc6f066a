"""A ninth kind is one row of facts and one module: the plan, the compiler and the engine take it as it is."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import trio
from fakes.graphs import plugin_set, turn_on
from fakes.toys import Toy

from bub.base.waiting import Wait, is_awaitable
from bub.hooks.binding import Calls, Values
from bub.hooks.facts import KINDS, Kind
from bub.hooks.kinds.runnable import DEFAULTED, DONE, Failed, Outcome, RunnableKind, Stage
from bub.hooks.kinds.table import RUNNABLE_KINDS
from bub.pipeline.plan.plan import make_plan
from bub.pipeline.run.compiler import compile as compile_graph
from bub.pipeline.run.turn import Turn
from bub.pipeline.source.merge import load_text

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

# The row.

VOTE_FACTS = Kind(
    "vote",
    "one after another, all",
    "what most of them answered",
    ("skip", "propagate"),
    frozenset({"into", "default"}),
)


# The module.


async def vote(calls: Calls, values: Values, wait: Wait, failed: Failed) -> Any:
    """The answer that most implementations gave; None if nobody gave one."""
    arguments = calls.arguments(values)
    votes: Counter[Any] = Counter()
    for call in calls.items:
        try:
            value = call.function(*arguments[call.signature])
            if is_awaitable(value):
                value = await wait(value)
            if value is not None:
                votes[value] += 1
        except Exception as error:  # noqa: BLE001 (the policy decides)
            await failed(call, error)
    return votes.most_common(1)[0][0] if votes else None


def finish(stage: Stage, values: list[Any], came: Any, each: bool) -> Outcome:
    if came is None:
        stage.yield_nothing(values, each)
        return DEFAULTED
    stage.put(values, came, each)
    return DONE


VOTE = RunnableKind(VOTE_FACTS, vote, finish, unanswered=lambda: "nobody voted", late_fired=lambda: "too late")


# A pipeline that has it.

PIPELINE = """
version: 1
hooks:
  choose: {kind: vote, takes: [message]}
  ask: {kind: vote, takes: [about], timeout: 2s}
  continue_prompt: {kind: vote}
  look: {kind: observer, takes: [chosen, fire]}
stages:
  choose: {kind: vote, into: chosen, default: nothing, timeout: 5s}
  look: {kind: observer}
"""


def a_turn(**plugins: object) -> Turn:
    plan = make_plan(load_text(PIPELINE), "default", kinds={**KINDS, "vote": VOTE_FACTS})
    rest = Toy(choose=lambda: None, look=lambda: None, ask=lambda: None)
    return turn_on(compile_graph(plan, plugin_set(rest=rest, **plugins), kinds={**RUNNABLE_KINDS, "vote": VOTE}))


def outcomes(turn: Turn) -> dict[str, str]:
    return {record.stage: record.outcome for record in turn.trace}


async def test_a_stage_of_the_ninth_kind_makes_its_value() -> None:
    async def later() -> str:
        await trio.sleep(1)
        return "tea"

    turn = a_turn(a=Toy(choose=lambda: "tea"), b=Toy(choose=lambda message: "coffee"), c=Toy(choose=later))
    await turn.run()
    assert turn.value("chosen") == "tea"
    assert outcomes(turn)["choose"] == "ok"


async def test_its_policy_its_default_and_its_time_out_are_those_of_every_kind() -> None:
    def fails() -> None:
        raise OSError("broken")

    turn = a_turn(a=Toy(choose=fails))
    await turn.run()
    assert (turn.value("chosen"), outcomes(turn)["choose"]) == ("nothing", "default")
    turn = a_turn(a=Toy(choose=trio.sleep_forever))
    await turn.run()
    assert (turn.value("chosen"), outcomes(turn)["choose"]) == ("nothing", "timeout")
    assert trio.current_time() == 5.0


async def test_a_point_of_the_ninth_kind_is_fired() -> None:
    heard: list[Any] = []

    async def look(fire: Any) -> None:
        heard.extend([await fire("ask", about=1), await fire("continue_prompt")])

    await a_turn(a=Toy(ask=lambda about: about, look=look), b=Toy(ask=lambda: 1), c=Toy(ask=lambda: 2)).run()
    await a_turn(a=Toy(ask=trio.sleep_forever, look=look)).run()
    assert heard == [1, "nobody voted", "too late", "nobody voted"]


def test_every_row_of_facts_has_its_behaviour() -> None:
    assert {name: kind.facts for name, kind in RUNNABLE_KINDS.items()} == dict(KINDS)
