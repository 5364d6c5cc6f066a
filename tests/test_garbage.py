"""Nothing stops a gateway's turns to look for garbage while it loads its file anew, and nothing is kept for good."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from bub.gateway.garbage import NEW_OBJECTS, look_through, looking_later, looking_less_often


class Knot:
    """Something that holds itself, so that only the search for garbage finds it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def searches() -> Iterator[list[int]]:
    """The generations that are looked through while the test runs."""
    seen: list[int] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        seen.append(info["generation"])

    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)
    gc.unfreeze()


def test_nothing_is_looked_through_while_much_is_made(searches: list[int]) -> None:
    with looking_later():
        made = [Knot() for _ in range(200_000)]
    assert searches == []
    assert gc.isenabled()
    assert gc.get_freeze_count() > len(made)


def test_what_was_alive_then_is_found_when_it_is_garbage() -> None:
    with looking_later():
        knot = Knot()
    seen = weakref.ref(knot)
    del knot
    gc.collect()
    assert seen() is not None  # nobody looks there
    look_through()
    assert seen() is None
    gc.unfreeze()


def test_a_failure_leaves_the_search_as_it_was() -> None:
    with pytest.raises(ValueError, match="broken"), looking_later():
        raise ValueError("broken")
    assert gc.isenabled()
    gc.unfreeze()


def test_python_looks_less_often_in_the_block_and_as_before_behind_it() -> None:
    before = gc.get_threshold()
    with pytest.raises(ZeroDivisionError), looking_less_often():
        assert gc.get_threshold() == (NEW_OBJECTS, *before[1:])
        _ = 1 / 0
    assert gc.get_threshold() == before
