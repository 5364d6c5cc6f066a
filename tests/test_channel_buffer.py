"""Which messages are answered as one, and when: the buffer by itself, on a clock that the test holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bub.channels.buffer import Buffer, Timing

TIMING = Timing(debounce=1.0, max_wait=10.0, active_window=60.0)


def test_C7_the_usual_times() -> None:
    assert Timing() == TIMING


def test_C8_what_nobody_asked_is_left_out() -> None:
    buffer: Buffer[str] = Buffer(TIMING)
    assert not buffer.add("chatter", 0, is_active=False)
    assert (buffer.deadline, buffer.take()) == (None, [])


def test_C8_chatter_behind_the_window_closes_it() -> None:
    buffer: Buffer[str] = Buffer(TIMING)
    buffer.add("bub?", 0, is_active=True)
    buffer.take()
    assert not buffer.add("chatter", 60.5, is_active=False)
    assert not buffer.listens(60.0)


def test_C9_each_message_that_asks_sets_the_time_anew() -> None:
    buffer: Buffer[str] = Buffer(TIMING)
    for second in (0, 0.5, 1.2):
        buffer.add(str(second), second, is_active=True)
    assert buffer.deadline == 2.2
    assert buffer.take() == ["0", "0.5", "1.2"]
    assert (buffer.deadline, buffer.take()) == (None, [])


def test_C10_what_follows_within_the_window_waits_longer() -> None:
    buffer: Buffer[str] = Buffer(TIMING)
    buffer.add("bub?", 0, is_active=True)
    buffer.take()
    assert buffer.add("by the way", 20, is_active=False)
    assert buffer.deadline == 30


def test_C10_what_follows_joins_a_batch_and_leaves_its_time_alone() -> None:
    buffer: Buffer[str] = Buffer(TIMING)
    buffer.add("bub?", 0, is_active=True)
    buffer.add("by the way", 0.9, is_active=False)
    assert buffer.deadline == 1
    assert buffer.take() == ["bub?", "by the way"]


def test_C11_one_that_asks_brings_the_time_forward() -> None:
    buffer: Buffer[str] = Buffer(TIMING)
    buffer.add("bub?", 0, is_active=True)
    buffer.take()
    buffer.add("by the way", 20, is_active=False)
    buffer.add("well?", 22, is_active=True)
    assert buffer.deadline == 23


def test_C12_what_follows_does_not_keep_the_window_open() -> None:
    buffer: Buffer[str] = Buffer(TIMING)
    buffer.add("bub?", 0, is_active=True)
    buffer.take()
    assert buffer.add("by the way", 50, is_active=False)
    buffer.take()
    assert not buffer.add("and another thing", 61, is_active=False)


def test_C13_who_goes_on_writing_is_answered_all_the_same() -> None:
    buffer: Buffer[int] = Buffer(TIMING)
    for tick in range(40):
        now = tick * 0.5
        if buffer.deadline is not None and now >= buffer.deadline:
            break
        buffer.add(tick, now, is_active=True)
    assert now == TIMING.max_wait
    assert len(buffer.take()) == 20


@given(st.lists(st.tuples(st.floats(0, 30), st.booleans()), max_size=40))
def test_nothing_is_lost_or_reordered_and_none_waits_longer_than_max_wait(steps: list[tuple[float, bool]]) -> None:
    buffer: Buffer[int] = Buffer(TIMING)
    now, began, taken, answered = 0.0, 0.0, list[int](), list[int]()
    for number, (pause, is_active) in enumerate(steps):
        now += pause
        if buffer.deadline is not None and buffer.deadline <= now:
            assert buffer.deadline <= began + TIMING.max_wait
            answered += buffer.take()
        waited = buffer.deadline is not None
        if buffer.add(number, now, is_active=is_active):
            taken.append(number)
            began = began if waited else now
        else:
            assert not is_active
        assert (buffer.deadline is not None) == bool(taken[len(answered) :])
    assert answered + buffer.take() == taken
