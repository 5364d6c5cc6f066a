"""Which messages are answered as one, and when: the debounce by itself, on a clock that the test holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bub.inbox.debounce import Debounce, Timing

TIMING = Timing(debounce=1.0, max_wait=10.0, active_window=60.0)


def test_C7_the_usual_times() -> None:
    assert Timing() == TIMING


def test_C8_what_nobody_asked_is_left_out() -> None:
    debounce: Debounce[str] = Debounce(TIMING)
    assert not debounce.add("chatter", 0, is_active=False)
    assert (debounce.deadline, debounce.take()) == (None, [])


def test_C8_chatter_behind_the_window_closes_it() -> None:
    debounce: Debounce[str] = Debounce(TIMING)
    debounce.add("bub?", 0, is_active=True)
    debounce.take()
    assert not debounce.add("chatter", 60.5, is_active=False)
    assert not debounce.listens(60.0)


def test_C9_each_message_that_asks_sets_the_time_anew() -> None:
    debounce: Debounce[str] = Debounce(TIMING)
    for second in (0, 0.5, 1.2):
        debounce.add(str(second), second, is_active=True)
    assert debounce.deadline == 2.2
    assert debounce.take() == ["0", "0.5", "1.2"]
    assert (debounce.deadline, debounce.take()) == (None, [])


def test_C10_what_follows_within_the_window_waits_longer() -> None:
    debounce: Debounce[str] = Debounce(TIMING)
    debounce.add("bub?", 0, is_active=True)
    debounce.take()
    assert debounce.add("by the way", 20, is_active=False)
    assert debounce.deadline == 30


def test_C10_what_follows_joins_a_batch_and_leaves_its_time_alone() -> None:
    debounce: Debounce[str] = Debounce(TIMING)
    debounce.add("bub?", 0, is_active=True)
    debounce.add("by the way", 0.9, is_active=False)
    assert debounce.deadline == 1
    assert debounce.take() == ["bub?", "by the way"]


def test_C11_one_that_asks_brings_the_time_forward() -> None:
    debounce: Debounce[str] = Debounce(TIMING)
    debounce.add("bub?", 0, is_active=True)
    debounce.take()
    debounce.add("by the way", 20, is_active=False)
    debounce.add("well?", 22, is_active=True)
    assert debounce.deadline == 23


def test_C12_what_follows_does_not_keep_the_window_open() -> None:
    debounce: Debounce[str] = Debounce(TIMING)
    debounce.add("bub?", 0, is_active=True)
    debounce.take()
    assert debounce.add("by the way", 50, is_active=False)
    debounce.take()
    assert not debounce.add("and another thing", 61, is_active=False)


def test_C13_who_goes_on_writing_is_answered_all_the_same() -> None:
    debounce: Debounce[int] = Debounce(TIMING)
    for tick in range(40):
        now = tick * 0.5
        if debounce.deadline is not None and now >= debounce.deadline:
            break
        debounce.add(tick, now, is_active=True)
    assert now == TIMING.max_wait
    assert len(debounce.take()) == 20


@given(st.lists(st.tuples(st.floats(0, 30), st.booleans()), max_size=40))
def test_nothing_is_lost_or_reordered_and_none_waits_longer_than_max_wait(steps: list[tuple[float, bool]]) -> None:
    debounce: Debounce[int] = Debounce(TIMING)
    now, began, taken, answered = 0.0, 0.0, list[int](), list[int]()
    for number, (pause, is_active) in enumerate(steps):
        now += pause
        if debounce.deadline is not None and debounce.deadline <= now:
            assert debounce.deadline <= began + TIMING.max_wait
            answered += debounce.take()
        waited = debounce.deadline is not None
        if debounce.add(number, now, is_active=is_active):
            taken.append(number)
            began = began if waited else now
        else:
            assert not is_active
        assert (debounce.deadline is not None) == bool(taken[len(answered) :])
    assert answered + debounce.take() == taken
