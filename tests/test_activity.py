"""Watching turns: who begins and ends, where each one is, what it does inside its stages, and how traces know it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from fakes.graphs import graph_of, turn_on
from fakes.stages import forever
from fakes.toys import HELLO, Toy, Workshop
from trio.testing import wait_all_tasks_blocked

from bub.base.tracing.activity import MOST_KEPT, Activities, begin, current_activity, doing, write_trace
from bub.base.tracing.context import read_trace
from bub.streaming import AsyncStreamEvents

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Watching:
    """Notes of each turn what it is at as it begins and as it ends."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []
        self.turns: list[Any] = []
        self.errors: list[BaseException | None] = []

    def turn_began(self, turn: Any) -> None:
        self.turns.append(turn)
        self.seen.append(("began", turn.phase, turn.outcome))

    def turn_ended(self, turn: Any) -> None:
        self.seen.append(("ended", turn.phase, turn.outcome))
        self.errors.append(turn.error)


def answering(**more: Callable[..., Any]) -> Toy:
    return Toy(run_model_stream=lambda: AsyncStreamEvents.of_text("hi"), **more)


async def test_a_watcher_sees_a_turn_come_and_go(bub: Workshop) -> None:
    framework, watching = bub("extends: bub:default", toy=answering()), Watching()
    with framework.watch(watching):
        await framework.process_inbound(HELLO)
    await framework.process_inbound(HELLO)
    assert watching.seen == [("began", "arriving", ""), ("ended", "over", "ok")]
    (turn,) = watching.turns
    assert (turn.profile.name, turn.result.model_output, watching.errors) == ("default", "hi", [None])
    assert [record.outcome for record in turn.trace][:1] == ["ok"]


async def test_a_watcher_that_fails_costs_the_turn_nothing(bub: Workshop, log: list[str]) -> None:
    class Failing(Watching):
        def turn_began(self, turn: Any) -> None:
            raise RuntimeError("broken watcher")

    framework = bub("extends: bub:default", toy=answering())
    with framework.watch(Failing()):
        assert (await framework.process_inbound(HELLO)).model_output == "hi"
    assert any("broken watcher" in line for line in log)


async def test_a_turn_says_which_stage_runs_and_that_it_was_cancelled(bub: Workshop) -> None:
    framework, watching = bub("extends: bub:default", toy=answering(build_prompt=forever)), Watching()
    with framework.watch(watching):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(framework.process_inbound, HELLO)
            await wait_all_tasks_blocked()
            (turn,) = framework.turns_under_way
            assert (turn.phase, turn.stages_now) == ("answering", ("build_prompt",))
            nursery.cancel_scope.cancel()
    assert watching.seen[-1] == ("ended", "over", "cancelled")
    assert not framework.turns_under_way


async def test_a_turn_that_fails_says_with_what(bub: Workshop) -> None:
    def fail() -> None:
        raise ValueError("no prompt today")

    framework, watching = bub("extends: bub:default", toy=answering(build_prompt=fail)), Watching()
    with framework.watch(watching), pytest.raises(ValueError, match="no prompt today"):
        await framework.process_inbound(HELLO)
    assert watching.seen[-1] == ("ended", "over", "failed")
    assert list(map(str, watching.errors)) == ["no prompt today"]


async def test_a_turn_that_is_closed_without_an_answer_was_dropped(bub: Workshop) -> None:
    framework, watching = bub("extends: bub:default", toy=answering()), Watching()
    with framework.watch(watching):
        turn = framework.begin(HELLO)
        await turn.arrive()
        await turn.close()
        await turn.close()
    assert watching.seen == [("began", "arriving", ""), ("ended", "over", "dropped")]


async def test_stages_beside_each_other_all_run_and_each_knows_what_it_does() -> None:
    found: dict[str, str] = {}
    graph = graph_of(
        """
hooks:
  one: {kind: observer}
  two: {kind: observer}
stages:
  one: {kind: observer, needs: []}
  two: {kind: observer, needs: []}
""",
        toy=Toy(one=lambda: _note("one"), two=lambda: _note("two")),
    )
    turn = turn_on(graph)
    activities = Activities(turn.find_stage)

    async def _note(name: str) -> None:
        await trio.sleep(1)
        found[name] = begin("tool", name).stage
        await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        token = current_activity.set(activities)
        nursery.start_soon(turn.run)
        current_activity.reset(token)
        await trio.sleep(0.5)
        assert set(turn.stages_now) == {"one", "two"}
    assert found == {"one": "one", "two": "two"}
    assert turn.stages_now == ()


async def test_what_a_turn_does_is_noted_with_its_stage_and_what_it_is_a_part_of(bub: Workshop) -> None:
    def build_prompt() -> str:
        with doing("tool", "outer", call_id="c1"), doing("server", "tools/call"):
            pass
        begin("model", "toy:one").end("failed", error="boom")
        return "hello"

    framework, watching = bub("extends: bub:default", toy=answering(build_prompt=build_prompt)), Watching()
    with framework.watch(watching):
        await framework.process_inbound(HELLO)
    outer, inner, model = watching.turns[0].activities.all
    assert [one.stage for one in (outer, inner, model)] == ["build_prompt"] * 3
    assert (outer.parent, inner.parent, model.parent) == (None, outer, None)
    assert (outer.outcome, outer.data, model.outcome, model.data) == (
        "ok",
        {"call_id": "c1"},
        "failed",
        {"error": "boom"},
    )
    assert outer.began <= inner.began and inner.ended is not None and outer.ended is not None
    assert len({one.id for one in (outer, inner, model)}) == 3


def test_what_a_block_does_ends_as_the_block_does() -> None:
    with pytest.raises(ValueError, match="x"), doing("tool", "breaks") as breaks:
        raise ValueError("x")
    with doing("tool", "denied") as denied:
        denied.end("denied")
    assert (breaks.outcome, breaks.data, denied.outcome) == ("failed", {"error": "ValueError"}, "denied")


async def test_a_cancelled_block_was_cancelled() -> None:
    with trio.move_on_after(1), doing("tool", "slow") as slow:
        await trio.sleep_forever()
    assert slow.outcome == "cancelled"


def test_of_a_turn_without_end_only_so_much_is_kept() -> None:
    activities = Activities()
    for _ in range(MOST_KEPT + 5):
        activities.begin("tool", "again").end()
    assert len(activities.all) == MOST_KEPT


def test_a_turn_goes_on_with_the_trace_of_who_sent_its_message() -> None:
    activities = Activities(trace=f"{PARENT} vendor=x")
    assert (activities.context.trace_id, activities.context.parent_id) == (
        "0af7651916cd43dd8448eb211c80319c",
        "b7ad6b7169203331",
    )
    assert activities.context.state == "vendor=x"
    assert write_trace(activities.begin("model", "m")) is None, "nobody collects traces, so nobody hears of this one"
    activities.is_traced = True
    model = activities.begin("model", "m")
    assert write_trace(model) == (f"00-0af7651916cd43dd8448eb211c80319c-{model.id}-01", "vendor=x")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        PARENT.upper(),
        PARENT.replace("00-", "ff-", 1),
        f"{PARENT}-more",
        "00-" + "0" * 32 + "-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-" + "0" * 16 + "-01",
    ],
)
def test_what_is_no_trace_begins_one(text: str) -> None:
    assert read_trace(text) is None
    context = Activities(trace=text).context
    assert (len(context.trace_id), context.parent_id, context.flags) == (32, "", 1)


def test_a_later_version_of_the_header_may_say_more() -> None:
    found = read_trace(PARENT.replace("00-", "01-", 1) + "-more")
    assert found is not None and found.flags == 1


async def test_a_message_brings_its_trace(bub: Workshop) -> None:
    framework, watching = bub("extends: bub:default", toy=answering()), Watching()
    with framework.watch(watching):
        await framework.process_inbound({**HELLO, "trace": PARENT})
    assert watching.turns[0].activities.context.parent_id == "b7ad6b7169203331"
