"""Long tasks: the model hears of its limits, and the person gets a summary before one of them ends the turn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fakes.command_line import bub
from fakes.scripted import OPENAI, Called, Script, refusal
from fakes.talk import Talk, add, adding, bringing, results_in
from fakes.toys import Toy

from bub.agent.costs.budget import BudgetError

pytestmark = pytest.mark.anyio

SUMMARY = "Two sums are done, one is left."


def said_by_user(request: dict[str, Any]) -> list[str]:
    return [message["content"] for message in request["messages"] if message["role"] == "user"]


def sums(count: int, **more: Any) -> list[Script]:
    return [OPENAI.answer(calls=[add(number, 0, id=f"c{number}")], **more) for number in range(count)]


@pytest.mark.parametrize(
    ("limit", "steps"),
    [
        ("steps: 3", sums(2)),
        ("tool_calls: 2", sums(3)),
        ("identical_calls: 2", [OPENAI.answer(calls=[add(1, 1, id=id)]) for id in "abc"]),  # noqa: A001
        ("calls_per_tool: 1", [OPENAI.answer(calls=[add(1, 1, id=id)]) for id in "abc"]),  # noqa: A001
        ("tokens_per_turn: 100", sums(2, usage=(20, 5))),
        ("tokens_per_day: 100", sums(2, usage=(20, 5))),
    ],
)
async def test_E21_at_a_limit_the_model_sums_up_without_tools(talk: Talk, limit: str, steps: list[Script]) -> None:
    async with talk.open(profile=f", budget: {{{limit}}}", toy=bringing(adding())):
        result = await talk.say(*steps, OPENAI.answer(SUMMARY))
        on_tape = [entry for entry in await talk.tape() if entry.kind == "message"]
    assert result.model_output == SUMMARY
    *before, last = await talk.asked()
    assert len(before) == len(steps)
    assert last["tool_choice"] == "none"
    assert not any("tool_choice" in request for request in before)
    assert last["tools"] == before[-1]["tools"]  # so that the provider's cache still fits
    assert "what is left" in said_by_user(last)[-1]
    [final] = talk.of_kind("final")
    assert final["finish_reason"] == "limit"
    assert f"`budget.{limit.partition(':')[0]}`" in final["cut"]
    assert on_tape[-1].payload["content"] == SUMMARY


async def test_E21_denials_end_with_a_summary_too(talk: Talk) -> None:
    guard = Toy(before_tool_call=lambda: {"error": "no"})
    async with talk.open(extends="ethos", profile=", budget: {denials: 2}", guard=guard, toy=bringing(adding())):
        result = await talk.say(*sums(2), OPENAI.answer(SUMMARY))
    assert result.model_output == SUMMARY
    assert "every tool call of 2 steps" in said_by_user((await talk.asked())[-1])[-1]


async def test_E21_the_calls_of_the_step_that_was_too_much_are_answered(talk: Talk) -> None:
    ran: list[Any] = []
    calls = [add(1, number, id=f"c{number}") for number in range(3)]
    async with talk.open(profile=", budget: {tool_calls: 2}", toy=bringing(adding(ran))):
        await talk.say(OPENAI.answer(calls=calls), OPENAI.answer(SUMMARY))
    assert ran == []
    assert all(said.startswith("error: not done, because") for said in results_in((await talk.asked())[-1]))


@pytest.mark.parametrize("last", [sums(1)[0], OPENAI.answer(" "), refusal(OPENAI.error("server_error", "broken"), 400)])
async def test_E21_without_a_summary_the_turn_fails_with_the_limit(talk: Talk, last: Script) -> None:
    ran: list[Any] = []
    async with talk.open(profile=", budget: {steps: 2}", toy=bringing(adding(ran))):
        with pytest.raises(BudgetError, match="it asked the model 2 times"):
            await talk.say(*sums(1), last)
    assert len(ran) == 1


async def test_E21_a_turn_of_one_step_has_no_summary(talk: Talk) -> None:
    async with talk.open(profile=", budget: {steps: 1}", toy=bringing(adding())):
        assert (await talk.say(OPENAI.answer("done"))).model_output == "done"
        with pytest.raises(BudgetError):
            await talk.say(*sums(1), OPENAI.answer(SUMMARY), session="other")


async def test_the_model_hears_of_a_limit_once_before_it_is_reached(talk: Talk) -> None:
    async with talk.open(profile=", budget: {steps: 8, tool_calls: 5}", toy=bringing(adding())):
        await talk.say(*sums(5), OPENAI.answer("done"))
    heard = [said_by_user(request)[1:] for request in await talk.asked()]
    assert heard[:4] == [[], [], [], []]
    assert heard[4] == ["[this turn has used 4 of 5 tool calls. Do what matters most first, then answer]"]
    assert heard[5] == heard[4]  # it is not said again
    assert talk.of_kind("final")[0]["finish_reason"] == "stop"


async def test_a_task_of_sixty_calls_one_after_another_ends_well(talk: Talk) -> None:
    ran: list[Any] = []
    async with talk.open(toy=bringing(adding(ran))):
        result = await talk.say(*sums(60), OPENAI.answer("All sums are done."))
    assert result.model_output == "All sums are done."
    assert len(ran) == 60
    assert said_by_user((await talk.asked())[-1])[1:] == []


async def test_a_sub_agent_at_its_limit_gives_its_summary_to_who_asked(talk: Talk) -> None:
    task = json.dumps([*sums(2), OPENAI.answer(SUMMARY)])
    delegate = OPENAI.answer(calls=[Called("subagent", json.dumps({"prompt": task}))])
    async with talk.open(profile=", budget: {steps: 3}", toy=bringing(adding())):
        result = await talk.say(delegate, OPENAI.answer("done"))
    assert result.model_output == "done"
    assert results_in((await talk.asked())[-1]) == [SUMMARY]


@pytest.mark.parametrize("option", [[], ["--json"]])
def test_run_says_which_limit_ended_the_turn_and_succeeds(tmp_path: Path, address: str, option: list[str]) -> None:
    (tmp_path / "pipelines.yaml").write_text(
        f"version: 1\nextends: bub:default\nsettings:\n  model: test:limited{len(option)}\n"
        f'  providers: {{test: {{api_base: "{address}/v1"}}}}\n'
        "profiles: {default: {plugins: [], budget: {steps: 2}}}\n"
    )
    script = [OPENAI.answer(calls=[Called("fs_list", "{}")]), OPENAI.answer(SUMMARY)]
    done = bub(tmp_path, "--config", "pipelines.yaml", "run", *option, json.dumps(script))
    assert done.returncode == 0
    assert SUMMARY in done.stdout
    assert done.stderr == (
        "bub: the turn was stopped: it asked the model 2 times, and more is not allowed "
        "(raise `budget.steps` of the profile if that was too early)\n"
    )
    if option:
        assert json.loads(done.stdout)["finish_reason"] == "limit"
