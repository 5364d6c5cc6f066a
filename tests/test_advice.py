"""What `bub validate` advises works: followed to the letter, it leaves a file without a finding."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from fakes.advice import ADVICE, follow
from fakes.mistakes import VERSION, Mistake, check, marked, said

MISTAKES = [
    mistake
    for path in sorted(Path(__file__).parent.glob("test_rules*.py"))
    for mistake in getattr(importlib.import_module(path.stem), "MISTAKES", [])
    if isinstance(mistake, Mistake)
]
MOST_STEPS = 2
"""A stage that takes the place of a clean-up has to be given a time-out, too: the advice then says so."""


def advised(mistake: Mistake) -> str | None:
    text, _ = marked(VERSION + mistake.text)
    found = check(text)  # nothing for what only `bub validate` looks for
    return follow(text, found[0]) if found else None


FOLLOWED = [mistake for mistake in MISTAKES if advised(mistake) is not None]


def test_most_advice_can_be_followed_to_the_letter() -> None:
    assert len(FOLLOWED) > 0.6 * len(MISTAKES)
    assert len(ADVICE) > 20


@pytest.mark.parametrize("mistake", FOLLOWED, ids=lambda mistake: f"{mistake.code} {mistake.message}")
def test_what_validate_advises_works_when_followed(mistake: Mistake) -> None:
    text, _ = marked(VERSION + mistake.text)
    told = said(check(text))
    for _ in range(MOST_STEPS):
        found = check(text)
        followed = follow(text, found[0]) if found else None
        if followed is None:
            break
        text = followed
    assert said(check(text)) == [], f"{told} → {text}"
