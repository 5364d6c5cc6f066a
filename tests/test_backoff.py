"""How long to wait before something that failed is tried again."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from bub.base.backoff import Backoff


def test_each_pause_is_twice_the_one_before_up_to_the_longest() -> None:
    backoff = Backoff(0.5, longest=5.0)
    assert [backoff.pause_after(failures) for failures in range(1, 7)] == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]


def test_without_a_longest_pause_they_grow_on_and_no_number_of_failures_is_too_large() -> None:
    assert Backoff(1.0).pause_after(11) == 1024.0
    assert math.isfinite(Backoff(1.0).pause_after(10**9))
    assert Backoff(0.0).pause_after(10**9) == 0.0


@given(st.integers(1, 10**6))
def test_chance_takes_away_no_more_than_the_share_that_is_said(failures: int) -> None:
    assert 3.0 <= Backoff(300.0, longest=300.0, spread=0.99).pause_after(failures) <= 300.0
    assert 150.0 <= Backoff(300.0, longest=300.0, spread=0.5).pause_after(failures) <= 300.0
