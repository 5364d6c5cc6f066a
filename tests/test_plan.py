"""The plan of a long task: what the model keeps, what the person sees of it, and that it outlives the conversation."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from fakes.command_line import bub
from fakes.scripted import OPENAI, Called, Script, refusal
from fakes.talk import Talk, results_in
from fakes.toys import Toy

from bub.agent.loop import steps
from bub.agent.tools.plan import LONGEST_STEP, MOST_STEPS
from bub.channels.plan import LivePlan, plan_rows
from bub.channels.terminal.answer import LiveAnswer, Printout
from bub.channels.terminal.painting import Painter
from bub.streaming import StreamEvent
from bub.tape import Tape
from bub.tape.plan import PlanStep, plan_of, plan_text
from bub.tape.tape import tape_name

MARKUP = "**bold** [red]x[/red] <b>y</b> `z`"
STEPS = {"done": ["Read it"], "doing": MARKUP, "left": ["Test it"]}
DATA = {
    "steps": [
        {"step": "Read it", "state": "done"},
        {"step": MARKUP, "state": "doing"},
        {"step": "Test it", "state": "left"},
    ]
}


def planning(id: str = "p1", **steps: Any) -> Called:  # noqa: A002
    return Called("plan", json.dumps(steps), id)


def event(*steps: PlanStep) -> StreamEvent:
    return StreamEvent("plan", {"steps": [{"step": one.step, "state": one.state} for one in steps]})


def tape_of(talk: Talk) -> Tape:
    return Tape(tape_name(talk.framework.workspace, "cli:local"), talk.framework.get_tape_store())


# What the model keeps.


@pytest.mark.anyio
async def test_a_plan_is_told_before_the_next_tool_runs_and_kept_beside_the_tape(talk: Talk) -> None:
    bash = Called("bash", json.dumps({"command": "true"}), "b1")
    async with talk.open():
        await talk.say(OPENAI.answer(calls=[planning(**STEPS), bash]), OPENAI.answer("Done."))
        [result, _] = results_in((await talk.asked())[-1])
        text = await plan_text(tape_of(talk))
        read = await talk.say(OPENAI.answer(calls=[planning("p2")]), OPENAI.answer("So far."))
        again = results_in((await talk.asked())[-1])[-1]
        await talk.say(",tape.reset")
        forgotten = await plan_of(tape_of(talk))
    assert result == "the person sees the plan: 1 of 3 steps are done"
    assert text == f"1. [done] Read it\n2. [doing] {MARKUP}\n3. [left] Test it"
    assert (read.model_output, again) == ("So far.", text)
    assert forgotten == ()


@pytest.mark.anyio
async def test_a_plan_comes_as_an_event_before_the_results_of_its_step(talk: Talk) -> None:
    async with talk.open():
        await talk.say(OPENAI.answer(calls=[planning(**STEPS)]), OPENAI.answer("Done."))
    kinds = [one.kind for one in talk.events]
    assert kinds.index("tool_call") < kinds.index("plan") < kinds.index("tool_result")
    assert talk.of_kind("plan") == [DATA]


@pytest.mark.anyio
async def test_a_plan_goes_on_behind_an_anchor(talk: Talk) -> None:
    handoff = Called("tape_handoff", json.dumps({"name": "next", "summary": "so far"}), "h1")
    steps = [OPENAI.answer(calls=[planning(**STEPS)]), OPENAI.answer(calls=[handoff])]
    async with talk.open():
        await talk.say(*steps, OPENAI.answer("On we go."))
        last = (await talk.asked())[-1]
    [anchor] = [said["content"] for said in last["messages"] if "Anchor created" in str(said["content"])]
    state = json.loads(anchor.partition("]: ")[2])
    assert state["plan"].splitlines()[0] == "1. [done] Read it"
    assert state["summary"] == "so far"


@pytest.mark.anyio
async def test_an_anchor_takes_along_what_is_left_of_a_long_plan(talk: Talk) -> None:
    async with talk.open():
        await talk.say(
            OPENAI.answer(calls=[planning(done=["x" * 200] * 40, left=["y" * 200] * 60)]), OPENAI.answer("Done.")
        )
        text = await plan_text(tape_of(talk))
    assert text.startswith("[40 steps are done]\n1. [left] yyy")
    assert len(text) < 4_100


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "there is no plan"),
        ({"done": [], "doing": " ", "left": ["", " \n"]}, "there is no plan"),
        ({"left": ["x"] * MOST_STEPS}, "the person sees the plan: 0 of 100 steps are done"),
        ({"left": ["x"] * MOST_STEPS, "doing": "y"}, "error: a plan has at most 100 steps (put several into one)"),
        ({"left": ["x" * 1000]}, "the person sees the plan: 0 of 1 steps are done"),
    ],
    ids=["empty", "blank", "long", "too long", "wordy"],
)
async def test_a_plan_is_of_any_length_within_bounds(talk: Talk, given: dict[str, Any], said: str) -> None:
    async with talk.open():
        await talk.say(OPENAI.answer(calls=[planning(**given)]), OPENAI.answer("Done."))
        assert results_in((await talk.asked())[-1]) == [said]
        assert all(len(one.step) <= LONGEST_STEP for one in await plan_of(tape_of(talk)))


@pytest.mark.anyio
async def test_a_profile_can_do_without_and_a_sub_agent_has_none(talk: Talk) -> None:
    async with talk.open(tools='{allow: ["*"], deny: [plan]}'):
        await talk.say(OPENAI.answer(calls=[planning(**STEPS)]), OPENAI.answer("Done."))
    assert "plan" not in [tool["function"]["name"] for tool in (await talk.asked())[0]["tools"]]
    assert talk.of_kind("plan") == []
    inner = json.dumps([OPENAI.answer(calls=[planning(**STEPS)]), OPENAI.answer("Four.")])
    async with talk.open():
        await talk.say(
            OPENAI.answer(calls=[Called("subagent", json.dumps({"prompt": inner}))]), OPENAI.answer("It is four.")
        )
    assert talk.of_kind("plan") == []


@pytest.mark.anyio
async def test_a_plan_waits_for_those_who_judge_the_answer(talk: Talk) -> None:
    """It has the model's words in it."""
    gate = "hooks: {judge: {kind: gate, takes: [model_output]}}\nstages: {judge: {after: run_model}}"
    judge = Toy(judge=lambda model_output: {"deny": "no"} if model_output == "Bad." else None)
    async with talk.open(more=gate, judge=judge):
        await talk.say(OPENAI.answer(calls=[planning(**STEPS)]), OPENAI.answer("Good."))
        assert [one.kind for one in talk.events][-3:] == ["plan", "text", "final"]
        await talk.say(OPENAI.answer(calls=[planning(**STEPS)]), OPENAI.answer("Bad."))
    assert talk.of_kind("plan") == []


@pytest.mark.anyio
async def test_the_pause_of_a_sub_agent_is_told_to_the_person(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUB_RETRIES", "1")
    monkeypatch.setattr(steps, "SHORTEST_TOLD", 0.01)
    inner = json.dumps([refusal({"error": {"message": "slow down"}}, 429, retry_after="0.1"), OPENAI.answer("Four.")])
    delegate = OPENAI.answer(calls=[Called("subagent", json.dumps({"prompt": inner}))])
    async with talk.open():
        await talk.say(delegate, OPENAI.answer("It is four."))
    [pause] = talk.of_kind("waiting")
    assert "slow down" in pause["reason"]
    kinds = [one.kind for one in talk.events]
    assert kinds.index("tool_call") < kinds.index("waiting") < kinds.index("tool_result")


# What the person sees.


def long_plan(done: int, steps: int = 100) -> list[PlanStep]:
    return [PlanStep(f"step {number}", "done" if number < done else "left") for number in range(steps)]


def test_a_long_plan_is_seen_around_the_step_that_is_next() -> None:
    assert plan_rows(long_plan(3), 6) == ["… 2 above", "✔ step 2", "○ step 3", "○ step 4", "○ step 5", "… 94 more"]
    assert plan_rows(long_plan(0), 5) == ["○ step 0", "○ step 1", "○ step 2", "… 97 more"]
    assert plan_rows(long_plan(100), 5) == ["… 97 above", "✔ step 97", "✔ step 98", "✔ step 99"]
    assert plan_rows(long_plan(2, 3), 5) == ["✔ step 0", "✔ step 1", "○ step 2"]
    assert plan_rows([], 5) == []


def test_where_nothing_is_drawn_only_what_changes_is_told() -> None:
    plan = LivePlan()
    assert plan.take(event(PlanStep("a", "doing"), PlanStep("b"))) == ["▶ a", "○ b"]
    assert plan.take(event(PlanStep("a", "done"), PlanStep("b", "doing"))) == ["✔ a", "▶ b"]
    assert plan.take(event(PlanStep("a", "done"), PlanStep("b", "done"))) == ["✔ b"]
    assert plan.take(event(PlanStep("a", "done"), PlanStep("b", "done"))) == []
    assert len(plan.take(event(*long_plan(0)))) == 11
    assert plan.take(StreamEvent("plan", {"steps": "nonsense"})) == []


def test_at_the_end_of_an_answer_its_plan_stays_with_its_markup_as_it_is() -> None:
    answer = LiveAnswer()
    list(answer.take(StreamEvent("plan", DATA)))
    [end] = answer.end()
    assert end == Printout("plan", f"✔ Read it\n▶ {MARKUP}\n○ Test it")
    assert Painter("utf-8").paint(end, 80) == f"✔ Read it\n▶ {MARKUP}\n○ Test it\n"
    assert Painter("ascii").paint(end, 80) == f"x Read it\n> {MARKUP}\n- Test it\n"


@pytest.fixture
def file(tmp_path: Path, address: str) -> Path:
    file = tmp_path / "pipelines.yaml"
    file.write_text(
        f"version: 1\nextends: bub:default\nsettings:\n  model: test:{uuid.uuid4().hex}\n"
        f'  providers: {{test: {{api_base: "{address}/v1"}}}}\nprofiles: {{default: {{plugins: []}}}}\n'
    )
    return file


SCRIPT: list[Script] = [
    OPENAI.answer(calls=[planning(left=["Read it", "Test it"])]),
    OPENAI.answer(calls=[planning("p2", done=["Read it"], left=["Test it"])]),
    OPENAI.answer("Done."),
]


@pytest.mark.parametrize("command", ["run", "chat"])
def test_without_a_terminal_the_steps_are_lines(file: Path, command: str) -> None:
    done = bub(file.parent, "--config", "pipelines.yaml", command, json.dumps(SCRIPT))
    start = "bub: " if command == "run" else ""
    assert done.stderr.splitlines() == [f"{start}{row}" for row in ("○ Read it", "○ Test it", "✔ Read it")]
    assert done.stdout.splitlines()[-1] == "Done."


def test_json_has_the_plan_as_it_was_in_the_end(file: Path) -> None:
    done = bub(file.parent, "--config", "pipelines.yaml", "run", "--json", json.dumps(SCRIPT))
    steps = [{"step": "Read it", "state": "done"}, {"step": "Test it", "state": "left"}]
    assert json.loads(done.stdout)["plan"] == steps
