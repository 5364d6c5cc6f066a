"""What has to hold whatever befalls the gateways: each check returns what is wrong, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from cluster.model import ANSWER, MARK

Entry = Mapping[str, Any]


def check_chat(chat: int, asked: Sequence[str], said: Sequence[str]) -> list[str]:
    """Each message is answered, in order, by one text; that text may have come more than once."""
    problems = [f"{chat}: no answer: {text!r}" for text in said if not ANSWER.fullmatch(text)]
    texts: dict[str, set[str]] = {}
    for text in said:
        for mark in MARK.findall(text):
            texts.setdefault(mark, set()).add(text)
    problems += [f"{chat}: {mark} has two texts: {sorted(two)}" for mark, two in texts.items() if len(two) > 1]
    problems += [f"{chat}: {mark} has no answer" for mark in asked if mark not in texts]
    problems += [f"{chat}: {mark} was asked by nobody" for mark in texts if mark not in asked]
    in_order = list(dict.fromkeys(mark for text in said for mark in MARK.findall(text)))
    if sorted(in_order) == sorted(asked) and in_order != list(asked):
        problems.append(f"{chat}: answered in the order {in_order} instead of {list(asked)}")
    return problems


def count_repeats(said: Sequence[str]) -> int:
    """How many texts came again."""
    return sum(times - 1 for times in Counter(said).values())


def check_tape(session: str, entries: Sequence[Entry], asked: Sequence[str], said: Sequence[str]) -> list[str]:
    """A tape's numbers have no gap, and it has each answer once: behind its question, in the order they came.

    A question that a crash interrupted may stand there without an answer, before it is asked again; or with one that
    nobody was told, if the crash came between the tape and the acknowledgement.
    """
    problems = []
    numbers = [entry["id"] for entry in entries]
    if numbers != list(range(1, len(numbers) + 1)):
        odd = [number for at, number in enumerate(numbers, 1) if number != at][:5]
        problems.append(f"{session}: the numbers of its {len(numbers)} entries have a gap or a repeat near {odd}")
    question: list[str] = []
    answers = []
    for entry in entries:
        if entry["kind"] != "message":
            continue
        text = str(entry["payload"].get("content"))
        if entry["payload"]["role"] == "user":
            question = MARK.findall(text)
        else:
            answers.append(text)
            if MARK.findall(text) != question:
                problems.append(f"{session}: {text!r} stands behind the question {question}")
            question = []
    told = list(dict.fromkeys(said))
    for place in reversed(range(len(answers) - 1)):
        if answers[place] not in told and _is_made_again(answers[place], answers[place + 1]):
            del answers[place]
    if answers != told:
        lacking = [text for text in told if text not in answers]
        extra = [text for text in answers if text not in told]
        again = [text for text, times in Counter(answers).items() if times > 1]
        problems.append(f"{session}: of what was said it lacks {lacking}, it has besides {extra}, and twice {again}")
    in_order = [mark for text in answers for mark in MARK.findall(text)]
    if sorted(in_order) == sorted(asked) and in_order != list(asked):
        problems.append(f"{session}: its answers are in the order {in_order}")
    return problems


def _is_made_again(answer: str, later: str) -> bool:
    """Whether the model was asked once more, for the same messages or these and some that had come meanwhile."""
    marks, more = MARK.findall(answer), MARK.findall(later)
    return set(marks) < set(more) or (marks == more and int(answer.split()[-1]) < int(later.split()[-1]))
