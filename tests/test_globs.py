"""What is said of two globs holds for every text that they match."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bub.base.globs import GlobIndex, covers, matcher, may_meet

GLOBS = ["".join(parts) for length in range(4) for parts in product(("a", "b", "*", "?", "[ab]"), repeat=length)]
TEXTS = ["".join(parts) for length in range(5) for parts in product("ab", repeat=length)]
MATCHED = {glob: {text for text in TEXTS if fnmatchcase(text, glob)} for glob in GLOBS}


def test_what_is_covered_is_matched_and_what_meets_nothing_shares_nothing() -> None:
    for one, other in product(GLOBS, repeat=2):
        assert not covers(one, other) or MATCHED[one] >= MATCHED[other], (one, other)
        assert may_meet(one, other) == bool(MATCHED[one] & MATCHED[other]), (one, other)


@pytest.mark.parametrize(
    ("wide", "narrow"), [("*", "a?"), ("fs.*", "fs.read"), ("fs.*", "fs.re*"), ("?[ab]*", "ba"), ("a?", "a?")]
)
def test_a_wider_glob_is_seen(wide: str, narrow: str) -> None:
    assert covers(wide, narrow)
    assert may_meet(narrow, wide)


def test_one_that_takes_texts_of_some_lengths_does_not_cover_one_that_takes_all() -> None:
    assert not covers("a?", "a*")
    assert not may_meet("fs.*", "net.read")


globs = st.text("ab*?[]!", max_size=4)


@given(globs, st.text("ab*[]\n", max_size=4))
def test_a_matcher_says_what_fnmatch_says(glob: str, text: str) -> None:
    assert bool(matcher(glob)(text)) == fnmatchcase(text, glob)


@given(globs, globs, st.text("ab*[]!\n", max_size=5))
def test_globs_that_match_one_text_may_meet(one: str, other: str, text: str) -> None:
    assert may_meet(one, other) or not (fnmatchcase(text, one) and fnmatchcase(text, other))


conditions = st.lists(st.dictionaries(st.sampled_from("xyz"), st.none() | globs, max_size=3), max_size=12)
texts = st.dictionaries(st.sampled_from("xyz"), st.text("ab*?[]!", max_size=4))


@given(conditions, texts)
def test_an_index_finds_every_condition_that_holds_or_covers(
    rows: list[dict[str, str | None]], row: dict[str, str]
) -> None:
    def is_met(condition: dict[str, str | None], by: Callable[[str, str], bool]) -> bool:
        return all(glob is not None and field in row and by(row[field], glob) for field, glob in condition.items())

    found = GlobIndex(rows).find(row.get)
    assert found == sorted(set(found))
    holding = {number for number, condition in enumerate(rows) if is_met(condition, fnmatchcase)}
    covering = {
        number for number, condition in enumerate(rows) if is_met(condition, lambda one, other: covers(other, one))
    }
    assert holding | covering <= set(found)


def test_an_index_finds_few_of_many() -> None:
    exact = [{"channel": "telegram", "chat_id": str(number)} for number in range(200)]
    begun = [{"channel": "telegram", "chat_id": f"-100{number}*"} for number in range(200, 400)]
    index = GlobIndex([*exact, *begun, {"channel": "telegram"}, {}])
    assert index.find({"channel": "telegram", "chat_id": "7"}.get) == [7, 400, 401]
    assert index.find({"channel": "telegram", "chat_id": "-100233-5"}.get) == [233, 400, 401]
    assert index.find({"chat_id": "-5"}.get) == [401]
