"""The checks of `make cluster` find what they are for, and a small plan runs through."""

from __future__ import annotations

from typing import Any

import pytest
from cluster.checks import check_chat, check_tape, count_repeats
from cluster.plans import run_takeover
from cluster.stage import Size

FIRST, SECOND, BOTH = "#1# is all, answer 1", "#2# is all, answer 1", "#1# #2# is all, answer 1"


def test_a_chat_is_right_whether_its_messages_are_answered_one_by_one_or_as_one() -> None:
    assert check_chat(7, ["#1#", "#2#"], [FIRST, SECOND]) == []
    assert check_chat(7, ["#1#", "#2#"], [BOTH]) == []


def test_the_same_text_again_is_only_counted() -> None:
    assert check_chat(7, ["#1#", "#2#"], [FIRST, FIRST, SECOND]) == []
    assert count_repeats([FIRST, FIRST, SECOND]) == 1


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ([FIRST], "#2# has no answer"),
        ([SECOND, FIRST], "answered in the order"),
        ([FIRST, "#1# is all, answer 2", SECOND], "#1# has two texts"),
        ([FIRST, BOTH], "#1# has two texts"),
        ([FIRST, SECOND, "Something went wrong"], "no answer: 'Something went wrong'"),
        ([FIRST, SECOND, "#3# is all, answer 1"], "#3# was asked by nobody"),
    ],
)
def test_what_is_wrong_in_a_chat_is_found(said: list[str], problem: str) -> None:
    [found] = check_chat(7, ["#1#", "#2#"], said)
    assert problem in found


def tape(*texts: str) -> list[dict[str, Any]]:
    """A tape with questions and answers in turn."""
    entries: list[dict[str, Any]] = [{"id": 1, "kind": "anchor", "payload": {}}]
    for number, text in enumerate(texts, 2):
        role = "assistant" if "answer" in text else "user"
        entries.append({"id": number, "kind": "message", "payload": {"role": role, "content": text}})
    return entries


def test_a_tape_has_each_answer_behind_its_question() -> None:
    assert check_tape("s", tape("#1#?", FIRST, "#2#?", "#2#?", SECOND), ["#1#", "#2#"], [FIRST, SECOND]) == []


def test_an_answer_that_nobody_was_told_stands_before_the_one_that_was() -> None:
    again = "#1# is all, answer 2"
    assert check_tape("s", tape("#1#?", FIRST, "#1#?", again, "#2#?", SECOND), ["#1#", "#2#"], [again, SECOND]) == []
    assert check_tape("s", tape("#1#?", FIRST, "#1# #2#?", BOTH), ["#1#", "#2#"], [BOTH]) == []
    [found] = check_tape("s", tape("#1#?", FIRST, "#2#?", SECOND), ["#2#"], [SECOND])
    assert "it has besides ['#1# is all, answer 1']" in found


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        (tape("#1#?", FIRST, "#2#?", SECOND)[1:], "have a gap"),
        (tape("#1#?", FIRST), "it lacks ['#2# is all, answer 1']"),
        (tape("#1#?", FIRST, "#2#?", SECOND, "#2#?", SECOND), "twice ['#2# is all, answer 1']"),
        (
            tape("#1#?", FIRST, "#2#?", "#2# is all, answer 2", "#2#?", SECOND),
            "it has besides ['#2# is all, answer 2']",
        ),
        (tape("#1#?", FIRST, SECOND), "stands behind the question []"),
    ],
)
def test_what_is_wrong_on_a_tape_is_found(entries: list[dict[str, Any]], problem: str) -> None:
    assert problem in " ".join(check_tape("s", entries, ["#1#", "#2#"], [FIRST, SECOND]))


def test_a_gateway_that_is_killed_loses_nothing() -> None:
    stage = run_takeover(Size(gateways=0, sessions=2, messages=2, rate=10, kills=1, lease=0.1, seed="5"))
    assert stage.problems == []
    assert len(stage.kills) == 1
