"""One turn at a time in each lane, in the order they came, and never more lanes busy than the limit says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from bub.runtime.lanes import Lanes

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def virtually(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a scenario on virtual time; one that never ends fails."""

    async def limited() -> None:
        with trio.fail_after(1000):
            await scenario()

    trio.run(limited, clock=MockClock(autojump_threshold=0))


@dataclass
class House:
    """Turns that run in lanes, and what was seen of them."""

    lanes: Lanes
    running: Counter[str] = field(default_factory=Counter)
    started: list[str] = field(default_factory=list)
    most: int = 0

    async def turn(self, name: str, lane: str, seconds: float = 1.0) -> None:
        with trio.fail_after(500):
            place = await self.lanes.enter(lane)
        try:
            self.started.append(name)
            self.running[lane] += 1
            assert self.running[lane] == 1, f"two turns at once in lane {lane}"
            self.most = max(self.most, self.running.total())
            await trio.sleep(seconds)
        finally:
            self.running[lane] -= 1
            self.lanes.leave(place)


class TestOneLane:
    def test_turns_run_one_after_another_in_the_order_they_came(self) -> None:
        async def scenario() -> None:
            house = House(Lanes())
            began = trio.current_time()
            async with trio.open_nursery() as nursery:
                for name in "abcd":
                    nursery.start_soon(house.turn, name, "lane")
                    await wait_all_tasks_blocked()
            assert house.started == ["a", "b", "c", "d"]
            assert trio.current_time() - began == pytest.approx(4)

        virtually(scenario)

    async def test_what_can_be_entered_at_once_is_entered_without_waiting(self) -> None:
        lanes = Lanes(2)
        first, second = lanes.take("a"), lanes.take("a")
        other, late = lanes.take("b"), lanes.take("c")
        assert [place.is_reached for place in (first, second, other, late)] == [True, False, True, False]
        lanes.leave(first)
        assert (late.is_reached, second.is_reached) == (True, False)
        lanes.leave(other)
        assert second.is_reached

    async def test_nobody_enters_at_once_before_those_who_wait(self) -> None:
        house = House(Lanes(1))
        busy = await house.lanes.enter("busy")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(house.turn, "waits", "lane")
            await wait_all_tasks_blocked()
            house.lanes.leave(busy)
            late, behind = house.lanes.take("late"), house.lanes.take("lane")
            assert not (late.is_reached or behind.is_reached)
        assert late.is_reached

    async def test_a_free_lane_is_entered_without_a_checkpoint(self) -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            await Lanes(1).enter("lane")
        assert not scope.cancelled_caught

    async def test_one_that_gives_up_waiting_loses_only_its_own_place(self) -> None:
        lanes = Lanes()
        house = House(lanes)
        first = await lanes.enter("lane")
        gives_up = trio.CancelScope()

        async def impatient() -> None:
            with gives_up:
                await house.turn("impatient", "lane", 0)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(impatient)
            await wait_all_tasks_blocked()
            nursery.start_soon(house.turn, "patient", "lane", 0)
            await wait_all_tasks_blocked()
            gives_up.cancel()
            await wait_all_tasks_blocked()
            assert house.started == []
            lanes.leave(first)
        assert gives_up.cancelled_caught
        assert house.started == ["patient"]

    async def test_whoever_is_handed_the_lane_while_being_cancelled_hands_it_on(self) -> None:
        lanes = Lanes()
        house = House(lanes)
        first = await lanes.enter("lane")
        scope = trio.CancelScope()

        async def cancelled_on_entry() -> None:
            with scope:
                await house.turn("cancelled", "lane")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancelled_on_entry)
            await wait_all_tasks_blocked()
            nursery.start_soon(house.turn, "next", "lane", 0)
            await wait_all_tasks_blocked()
            lanes.leave(first)
            scope.cancel()
        assert house.started == ["cancelled", "next"]


class TestManyLanes:
    def test_lanes_run_side_by_side(self) -> None:
        async def scenario() -> None:
            house = House(Lanes())
            began = trio.current_time()
            async with trio.open_nursery() as nursery:
                for name in "abcd":
                    nursery.start_soon(house.turn, name, name)
            assert trio.current_time() - began == pytest.approx(1)
            assert house.most == 4

        virtually(scenario)

    def test_no_more_are_busy_than_the_limit_says_and_the_longest_waiting_is_next(self) -> None:
        async def scenario() -> None:
            house = House(Lanes(2))
            began = trio.current_time()
            async with trio.open_nursery() as nursery:
                for name in "abcdef":
                    nursery.start_soon(house.turn, name, name)
                    await wait_all_tasks_blocked()
            assert house.most == 2
            # Those that are let in at one moment start in any order.
            assert [set(house.started[two : two + 2]) for two in (0, 2, 4)] == [{"a", "b"}, {"c", "d"}, {"e", "f"}]
            assert trio.current_time() - began == pytest.approx(3)

        virtually(scenario)

    def test_a_lane_with_a_long_queue_does_not_keep_the_others_out(self) -> None:
        async def scenario() -> None:
            house = House(Lanes(1))
            async with trio.open_nursery() as nursery:
                for number in range(5):
                    nursery.start_soon(house.turn, f"busy-{number}", "busy")
                    await wait_all_tasks_blocked()
                nursery.start_soon(house.turn, "quiet", "quiet")
            assert house.started.index("quiet") <= 1

        virtually(scenario)

    async def test_one_that_gives_up_waiting_for_a_place_frees_its_lane(self) -> None:
        lanes = Lanes(1)
        house = House(lanes)
        busy = await lanes.enter("busy")
        gives_up = trio.CancelScope()

        async def impatient() -> None:
            with gives_up:
                await house.turn("impatient", "lane", 0)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(impatient)
            await wait_all_tasks_blocked()
            nursery.start_soon(house.turn, "patient", "lane", 0)
            await wait_all_tasks_blocked()
            gives_up.cancel()
            await wait_all_tasks_blocked()
            lanes.leave(busy)
        assert house.started == ["patient"]


class TestTogether:
    async def test_who_need_not_be_alone_waits_for_nobody_and_who_must_waits_for_all(self) -> None:
        lanes = Lanes()
        together = [lanes.take("lane", alone=False) for _ in range(2)]
        alone = lanes.take("lane")
        assert [place.is_reached for place in (*together, alone)] == [True, True, False]
        assert (len(lanes.holders("lane")), list(lanes.waiting("lane"))) == (2, [alone])
        for place in together:
            assert not alone.is_reached
            lanes.leave(place)
        assert alone.is_reached
        beside = lanes.take("lane", alone=False)
        assert beside.is_reached
        for place in (alone, beside):
            lanes.leave(place)
        assert lanes.is_empty

    async def test_places_are_reached_in_the_order_they_were_taken_whoever_waits_first(self) -> None:
        lanes, came = Lanes(), list[int]()
        places = [lanes.take("lane") for _ in range(3)]

        async def run(number: int) -> None:
            await lanes.reach(places[number])
            came.append(number)
            lanes.leave(places[number])

        async with trio.open_nursery() as nursery:
            for number in (2, 1, 0):
                nursery.start_soon(run, number)
                await wait_all_tasks_blocked()
        assert came == [0, 1, 2]

    async def test_a_wider_limit_lets_those_run_who_wait_for_room(self) -> None:
        lanes = Lanes(1)
        places = [lanes.take(name) for name in "abc"]
        lanes.widen(2)
        assert [place.is_reached for place in places] == [True, True, False]
        lanes.widen(1)
        lanes.leave(places[0])
        assert not places[2].is_reached
        lanes.leave(places[1])
        assert places[2].is_reached


class Visit(NamedTuple):
    """One turn of a random schedule: when it comes, which lane it wants, how long it runs, when it gives up."""

    comes: int
    lane: str
    runs: int
    gives_up: int | None


VISITS = st.lists(
    st.builds(
        Visit,
        st.integers(0, 6),
        st.sampled_from("abc"),
        st.integers(0, 4),
        st.none() | st.integers(0, 8),
    ),
    max_size=12,
)


@given(visits=VISITS, limit=st.none() | st.integers(1, 3))
@settings(deadline=None, max_examples=150)
def test_any_schedule_keeps_the_order_and_the_limit_and_leaves_nothing_behind(
    visits: list[Visit], limit: int | None
) -> None:
    lanes = Lanes(limit)
    house = House(lanes)
    asked: list[int] = []
    given_up: set[int] = set()

    async def visit(number: int, planned: Visit) -> None:
        # Fractions keep two things from happening at one moment, whose order nobody promises.
        await trio.sleep(planned.comes + number / 100)
        asked.append(number)
        patience = planned.gives_up + number / 10_000 if planned.gives_up is not None else float("inf")
        with trio.CancelScope(deadline=trio.current_time() + patience) as scope:
            await house.turn(str(number), planned.lane, planned.runs + number / 1000)
        if scope.cancelled_caught:
            given_up.add(number)

    async def scenario() -> None:
        async with trio.open_nursery() as nursery:
            for number, planned in enumerate(visits):
                nursery.start_soon(visit, number, planned)
        # Whoever comes now finds every lane free: had a place been lost, these would wait for ever.
        for lane in "abc":
            lanes.leave(await lanes.enter(lane))
        places = [await lanes.enter(str(number)) for number in range(limit or 3)]
        for place in places:
            lanes.leave(place)
        assert lanes.is_empty

    virtually(scenario)
    started = [int(name) for name in house.started]
    assert len(started) == len(set(started))
    assert set(range(len(visits))) - set(started) <= given_up, "a turn was never let in"
    for lane in "abc":
        came = [number for number in asked if visits[number].lane == lane and number in started]
        assert [number for number in started if visits[number].lane == lane] == came, "a turn was overtaken"
    assert limit is None or house.most <= limit
    assert house.running.total() == 0


def test_lanes_that_are_left_take_no_memory() -> None:
    async def scenario() -> None:
        lanes = Lanes(2)
        house = House(lanes)
        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(house.turn, str(number), f"session-{number % 20}", 0.01)
        assert lanes.is_empty

    virtually(scenario)
