"""The scenarios that every shipped pipeline is played through, and the table of what comes of them."""

from __future__ import annotations

import pytest
from scenarios.play import PAGE, PIPELINES, Scenario, on_the_page, play, scenarios, table

STORY = {
    "01-load-state-fails": ("fails: `ConnectionError`", "replies `I feel fine.`", "fails: `ConnectionError`"),
    "02-save-state-fails": ("fails: `ConnectionError`", "replies `hi`", "fails: `ConnectionError`"),
    "03-no-model": ("fails: `NoAnswerError`", "replies `hello`", "fails: `NoAnswerError`"),
    "04-observer-crashes": ("replies `hi`",) * 3,
    "05-two-answer": ("replies `high answers`",) * 3,
    "06-two-claim": ("replies `hi`", "replies `hi`", "claimed, replies `high has it`"),
    "07-tool-denied": ("replies `I was told: error: not in this house`",) * 3,
    "08-guard-crashes": ("replies `I was told: erased`",) * 3,
    "09-gate-crashes": ("replies `I was told: error: This could not be checked, so it was not done.`",) * 3,
    "10-gate-undeclared": (
        "replies `I was told: error: This could not be checked, so it was not done.`",
        "replies `I was told: error: This could not be checked, so it was not done.`",
        "does not start: `B209`",
    ),
}
"""How each scenario ends under each pipeline, whatever else is told of it."""


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_scenario_ends_as_the_pipeline_says(scenario: Scenario, pipeline: str) -> None:
    ending = play(scenario, pipeline).partition(";")[0]
    assert ending == STORY[scenario.name][PIPELINES.index(pipeline)]


def test_the_table_of_the_scenarios_is_what_comes_of_them() -> None:
    said = f"run `python -m tests.scenarios --write` to put it on {PAGE.name}"
    assert on_the_page() == table(), said


def test_every_scenario_has_its_ending() -> None:
    assert [scenario.name for scenario in scenarios()] == [*STORY]
