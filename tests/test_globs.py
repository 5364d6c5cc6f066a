"""What is said of two globs holds for every text that they match."""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import product

import pytest

from bub.base.globs import covers, may_meet

GLOBS = ["".join(parts) for length in range(4) for parts in product(("a", "b", "*", "?", "[ab]"), repeat=length)]
TEXTS = ["".join(parts) for length in range(5) for parts in product("ab", repeat=length)]
MATCHED = {glob: {text for text in TEXTS if fnmatchcase(text, glob)} for glob in GLOBS}


def test_what_is_covered_is_matched_and_what_meets_nothing_shares_nothing() -> None:
    for one, other in product(GLOBS, repeat=2):
        assert not covers(one, other) or MATCHED[one] >= MATCHED[other], (one, other)
        assert may_meet(one, other) or not MATCHED[one] & MATCHED[other], (one, other)


@pytest.mark.parametrize(
    ("wide", "narrow"), [("*", "a?"), ("fs.*", "fs.read"), ("fs.*", "fs.re*"), ("?[ab]*", "ba"), ("a?", "a?")]
)
def test_a_wider_glob_is_seen(wide: str, narrow: str) -> None:
    assert covers(wide, narrow)
    assert may_meet(narrow, wide)


def test_one_that_takes_texts_of_some_lengths_does_not_cover_one_that_takes_all() -> None:
    assert not covers("a?", "a*")
    assert not may_meet("fs.*", "net.read")
