"""What returns after its deadline counts as expired; nothing can interrupt a plain function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from fakes.graphs import graph_of, turn_on
from fakes.toys import Errors, Toy, outcomes
from trio.testing import MockClock

from bub.hooks.kinds.verdicts import BROKEN_GATE

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def working(seconds: float, answer: Any = None) -> Callable[[], Any]:
    """A plain function that works for so long before it answers."""

    def work() -> Any:
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, MockClock)
        clock.jump(seconds)
        return answer

    return work


def blocking(seconds: float, answer: Any = None) -> Callable[[], Awaitable[Any]]:
    """A coroutine function that works for so long without a checkpoint."""

    async def block() -> Any:
        return working(seconds, answer)()

    return block


GATED = """
hooks: {moderate: {kind: gate}}
stages:
  moderate: {timeout: 5s}
  run_model: {kind: firstresult, into: model_output, default: "hi"}
  render_outbound:
    {kind: broadcast, combine: concat, into: outbounds, default: [{content: "{model_output}", channel: a, chat_id: b}]}
"""


@pytest.mark.parametrize("gate", [working(6), blocking(6)], ids=["def", "async def"])
async def test_a_gate_that_allows_too_late_denies(gate: Callable[[], Any]) -> None:
    errors = Errors()
    turn = turn_on(graph_of(GATED, toy=Toy(moderate=gate, on_error=errors.told)))
    await turn.run()
    assert str(turn.ended_by) == "denied:moderate"
    assert turn.trace[0].outcome == "timeout"
    assert errors.stages == ["moderate"]
    assert isinstance(errors.all[0][1], trio.TooSlowError)


async def test_a_gate_that_takes_just_its_time_allows() -> None:
    turn = turn_on(graph_of(GATED, toy=Toy(moderate=working(5))))
    await turn.run()
    assert turn.ended_by is None
    assert outcomes(turn)["moderate"] == "ok"


async def test_a_gate_without_a_time_out_takes_as_long_as_it_takes() -> None:
    turn = turn_on(graph_of(GATED.replace("{timeout: 5s}", "{}"), toy=Toy(moderate=working(600))))
    await turn.run()
    assert turn.ended_by is None


async def test_what_stands_below_a_late_stage_has_its_own_time() -> None:
    async def look() -> None:
        await trio.sleep(3)

    turn = turn_on(
        graph_of(
            """
hooks: {one: {kind: observer}, two: {kind: observer}, three: {kind: observer}}
stages:
  one: {timeout: 2s}
  two: {timeout: 4s}
  three: {}
""",
            toy=Toy(one=working(9), two=look, three=look),
        )
    )
    await turn.run()
    assert outcomes(turn) == {"one": "timeout", "two": "ok", "three": "ok"}


async def test_the_error_observers_of_a_late_stage_may_wait() -> None:
    told: list[str] = []

    async def on_error(stage: str) -> None:
        await trio.sleep(5)
        told.append(stage)

    async def first() -> None:
        await trio.sleep(1)

    low, high = Toy(one=working(9), on_error=on_error), Toy(one=first)
    pipeline = "hooks: {one: {kind: observer}}\nstages: {one: {timeout: 2s}}"
    turn = turn_on(graph_of(pipeline, low=low, high=high))
    await turn.run()
    assert told == ["one"]


@pytest.mark.parametrize(
    ("stage", "answer", "yielded"),
    [
        ('{kind: firstresult, into: x, timeout: 5s, on_failure: skip, default: "d"}', "late", "d"),
        ("{kind: broadcast, into: x, combine: join, timeout: 5s, on_failure: skip}", "late", ""),
        ('{kind: stream, into: x, timeout: 5s, on_failure: skip, default: "d"}', "late", "d"),
    ],
)
async def test_an_answer_that_comes_too_late_is_not_taken(stage: str, answer: str, yielded: str) -> None:
    graph = graph_of(f"hooks: {{say: {{}}}}\nstages: {{say: {stage}}}", toy=Toy(say=working(6, answer)))
    turn = turn_on(graph)
    await turn.run()
    assert turn.values[graph.values["x"]] == yielded
    assert outcomes(turn) == {"say": "timeout"}


@pytest.mark.parametrize("kind", ["firstresult, into: x", "broadcast", "stream, into: x"])
async def test_a_stage_whose_failures_end_the_turn_ends_it_when_it_is_late(kind: str) -> None:
    pipeline = f"hooks: {{say: {{}}}}\nstages: {{say: {{kind: {kind}, timeout: 5s}}}}"
    turn = turn_on(graph_of(pipeline, toy=Toy(say=working(6, "late"))))
    with pytest.raises(trio.TooSlowError, match="stage `say` took longer than 5 seconds"):
        await turn.run()


async def test_a_claim_and_a_change_that_come_too_late_are_not_heeded() -> None:
    graph = graph_of(
        """
hooks: {take: {kind: claiming}, change: {kind: modifying, takes: [x]}, give: {kind: firstresult}}
stages:
  take: {timeout: 5s}
  give: {into: x, default: "as it was"}
  change: {changes: [x], timeout: 5s}
""",
        toy=Toy(take=working(6, {"handled": True}), change=working(6, {"x": "changed"}), give=working(0)),
    )
    turn = turn_on(graph)
    await turn.run()
    assert turn.ended_by is None
    assert turn.values[graph.values["x"]] == "as it was"


# Points that are fired.


def firing(answers: list[Any]) -> Callable[..., Awaitable[None]]:
    async def ask(fire: Any) -> None:
        answers.append(await fire("check"))

    return ask


@pytest.mark.parametrize("gate", [working(6), blocking(6)], ids=["def", "async def"])
async def test_a_gate_that_is_fired_and_allows_too_late_denies(gate: Callable[[], Any]) -> None:
    answers: list[Any] = []
    pipeline = "hooks: {check: {kind: gate, timeout: 5s}, ask: {kind: observer}}\nstages: {ask: {}}"
    turn = turn_on(graph_of(pipeline, toy=Toy(check=gate, ask=firing(answers))))
    await turn.run()
    assert answers == [{"deny": BROKEN_GATE}]


async def test_a_gate_that_is_fired_and_allows_in_time_allows() -> None:
    answers: list[Any] = []
    pipeline = "hooks: {check: {kind: gate, timeout: 5s}, ask: {kind: observer}}\nstages: {ask: {}}"
    turn = turn_on(graph_of(pipeline, toy=Toy(check=working(5), ask=firing(answers))))
    await turn.run()
    assert answers == [None]


# Clean-ups.


CLEANED = """
hooks: {work: {kind: observer}, clean: {kind: broadcast}}
stages:
  work: {}
  clean: {cleanup_for: work, timeout: 5s}
"""


@pytest.mark.parametrize("late", [working(6), blocking(6)], ids=["def", "async def"])
@pytest.mark.parametrize("other", [working(4), blocking(4)], ids=["def", "async def"])
async def test_in_a_clean_up_each_implementation_has_its_own_time(
    late: Callable[[], Any], other: Callable[[], Any]
) -> None:
    errors = Errors()
    pipeline = CLEANED.replace("timeout: 5s", "timeout: 5s, on_failure: skip")
    plugins = {"one": Toy(work=working(0), clean=other, on_error=errors.told), "two": Toy(clean=other)}
    turn = turn_on(graph_of(pipeline, **plugins, three=Toy(clean=late), four=Toy(clean=other)))
    await turn.run()
    assert errors.stages == ["clean:three"]
    assert isinstance(errors.all[0][1], trio.TooSlowError)


async def test_a_clean_up_that_comes_too_late_ends_the_turn_if_its_failures_do() -> None:
    turn = turn_on(graph_of(CLEANED, toy=Toy(work=working(0), clean=working(6))))
    with pytest.raises(trio.TooSlowError, match="plugin `toy` took longer than 5 seconds"):
        await turn.run()
