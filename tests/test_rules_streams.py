"""What is found about streams: words that nobody has judged, and time that nothing bounds."""

from __future__ import annotations

import pytest
from fakes.mistakes import VERSION, Mistake, assert_is_found, check, said

GATED = """\
extends: bub:default
hooks: {judge: {kind: gate, takes: [model_output]}}
stages:
  judge: {after: run_model, timeout: 5s}
"""

MISTAKES = [
    Mistake(
        "B179",
        f"{GATED}  run_model: {{show: «at_once»}}\n",
        "stage `run_model` shows its words before `judge` judges them",
        "leave `show` out: Bub then shows the words after `judge` has judged them",
        ("at_once", "checked"),
        severity="warning",
    ),
    Mistake(
        "B179",
        "extends: bub:ethos\nstages: {run_model: {show: «at_once»}}\n",
        "stage `run_model` shows its words before `message_sending` and `before_dispatch` judge them",
        "leave `show` out: Bub then shows the words after `message_sending` and `before_dispatch` have judged them",
        ("{show: at_once}", "{}"),
        severity="warning",
    ),
    Mistake(
        "B179",
        "extends: bub:default\nstages: {run_model: {show: «at_once»}}\n",
        "`show: at_once` changes nothing: no stage below stage `run_model` judges its words",
        "leave `show` out",
        ("at_once", "checked"),
        severity="warning",
    ),
    Mistake(
        "B183",
        "extends: bub:default\nhooks: {look: {kind: observer}}\nstages: {«look»: {before: run_model}}\n",
        "stage `look` has no `timeout`: if it hangs, its session waits for ever",
        "say how long it may take, such as `timeout: 30s`",
        ("before: run_model", "before: run_model, timeout: 5s"),
        severity="note",
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.message)
def test_each_is_found_at_its_place(mistake: Mistake) -> None:
    assert_is_found(mistake)


@pytest.mark.parametrize(
    "text",
    [
        f"{GATED}  run_model: {{show: checked}}\n",
        f"{GATED}  run_model: {{show: '${{env:SHOW:-checked}}'}}\n",
        f"{GATED}  run_model: {{show: at_once, enabled: false, default: hi}}\n",
    ],
    ids=["checked", "a reference", "off"],
)
def test_a_stream_whose_words_wait_is_right(text: str) -> None:
    assert [finding for finding in said(check(VERSION + text)) if "B179" in finding] == []


@pytest.mark.parametrize(
    "text",
    [
        "extends: bub:default\n",
        "extends: bub:classic\n",
        "extends: bub:ethos\n",
        "extends: bub:default\nhooks: {look: {kind: observer, timeout: 5s}}\nstages: {look: {before: run_model}}\n",
        "extends: bub:default\nhooks: {look: {kind: observer}}\nstages: {look: {before: run_model, enabled: false}}\n",
        "extends: bub:default\nhooks: {look: {kind: void}}\nstages: {look: {before: run_model, timeout: '${env:T}'}}\n",
    ],
    ids=["default", "classic", "ethos", "its hook has one", "off", "a reference"],
)
def test_a_stage_that_something_bounds_is_right(text: str) -> None:
    assert [one for one in said(check(VERSION + text, timeouts=True)) if "B183" in one] == []
