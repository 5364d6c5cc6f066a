"""Telegram: how fast a bot may write."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio
import trio.testing
from fakes.telegram_world import in_virtual_time

from bub.channels import TryLaterError
from bub_plugins.telegram.limits import ChatAddress, Pace

pytestmark = pytest.mark.filterwarnings(  # the library warns of its own use of what it will change
    "ignore:.*`retry_after` will be of type:DeprecationWarning"
)


def times_of(chats: list[str], *, spare: bool = False) -> list[tuple[float, str]]:
    """When each of so many calls, all wanted at once, gets its turn."""

    async def main() -> list[tuple[float, str]]:
        pace, began, went = Pace(), trio.current_time(), []

        async def one(chat: str) -> None:
            async with pace.turn(ChatAddress.of(chat), spare=spare):
                went.append((trio.current_time() - began, chat))

        async with trio.open_nursery() as nursery:
            for chat in chats:
                nursery.start_soon(one, chat)
        return went

    return in_virtual_time(main)


def test_one_message_a_second_to_a_chat() -> None:
    times = [at for at, _ in times_of(["7"] * 5)]
    assert times[0] == 0
    assert all(later - earlier > 0.99 for earlier, later in pairwise(times))
    assert times[-1] < 5


def test_twenty_a_minute_to_a_group() -> None:
    times = [at for at, _ in times_of(["-100"] * 45)]
    assert all(later - earlier > 59.99 for earlier, later in zip(times, times[20:], strict=False))
    assert times[19] < 21


def test_thirty_a_second_in_all() -> None:
    times = sorted(at for at, _ in times_of([str(number) for number in range(100)]))
    assert times[29] == 0
    assert all(later - earlier > 0.99 for earlier, later in zip(times, times[30:], strict=False))
    assert times[-1] < 4


def test_twenty_a_second_in_all_of_what_can_be_left_out() -> None:
    times = sorted(at for at, _ in times_of([str(number) for number in range(50)], spare=True))
    assert all(later - earlier > 0.99 for earlier, later in zip(times, times[20:], strict=False))


def test_a_chat_that_waits_holds_up_no_other() -> None:
    went = times_of(["7"] * 50 + ["8", "9"])
    assert {chat: at for at, chat in reversed(went)} == {"7": 0, "8": 0, "9": 0}


def test_a_slow_call_comes_no_closer_to_the_next_one() -> None:
    async def main() -> None:
        pace, there = Pace(), ChatAddress.of("7")
        async with pace.turn(there):
            await trio.sleep(5)
            answered = trio.current_time()
        async with pace.turn(there):
            assert trio.current_time() - answered > 0.99

    in_virtual_time(main)


def test_what_can_be_left_out_leaves_room_for_what_cannot() -> None:
    async def main() -> None:
        pace, there = Pace(), ChatAddress.of("-100")
        for _ in range(15):
            async with pace.turn(there, spare=True):
                pass
        with trio.move_on_after(20):
            async with pace.turn(there, spare=True):
                raise AssertionError("no more of those in this minute")
        began = trio.current_time()
        async with pace.turn(there):
            assert trio.current_time() == began

    in_virtual_time(main)


def test_a_chat_that_telegram_holds_is_tried_later() -> None:
    async def main() -> None:
        pace, there = Pace(), ChatAddress.of("7")
        pace.hold(there, 3)
        began = trio.current_time()
        async with pace.turn(there):
            assert trio.current_time() - began == pytest.approx(3)
            pace.hold(there, 60)
        for _ in range(2):
            with pytest.raises(TryLaterError) as failed:
                async with pace.turn(there):
                    raise AssertionError("not now")
        assert failed.value.seconds == pytest.approx(60)

    in_virtual_time(main)


def test_chats_that_are_silent_again_are_forgotten() -> None:
    async def main() -> None:
        pace = Pace()
        for number in range(5_000):
            async with pace.turn(ChatAddress.of(str(number))):
                pass
            await trio.sleep(0.1)
        assert len(pace._chats) <= 1_000

    in_virtual_time(main)
