"""The bus: what is published comes out once and in its order, and no message is lost, whatever becomes of its turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from bub.bus import BUS_METHODS, PATIENCE, BusProtocol, KeepingBus, MessageBus, check_bus, handle_once
from bub.errors import BubError, HookTypeError

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def virtually(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a scenario on virtual time; one that never ends fails."""

    async def limited() -> None:
        with trio.fail_after(10_000):
            await scenario()

    trio.run(limited, clock=MockClock(autojump_threshold=0))


@dataclass
class Result:
    """What a turn came to."""

    outbounds: list[Any] | None


@dataclass
class PlainBus:
    """A bus of somebody else's, with the four methods and no more."""

    inbound: deque[Any] = field(default_factory=deque)
    outbound: deque[Any] = field(default_factory=deque)
    refuses: bool = False
    stuck: bool = False

    def __len__(self) -> int:
        return 0

    async def publish_inbound(self, message: Any) -> None:
        await self._ready()
        self.inbound.append(message)

    async def publish_outbound(self, message: Any) -> None:
        await self._ready()
        self.outbound.append(message)

    async def next_inbound(self, timeout_seconds: float | None = None) -> Any:
        return self.inbound.popleft() if self.inbound else None

    async def next_outbound(self, timeout_seconds: float | None = None) -> Any:
        return self.outbound.popleft() if self.outbound else None

    async def _ready(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.refuses:
            raise OSError("the broker is gone")
        if self.stuck:
            await trio.sleep_forever()


async def taken(next_one: Callable[[float | None], Coroutine[Any, Any, Any]]) -> list[Any]:
    """All that is there, in its order."""
    found = []
    while (item := await next_one(0)) is not None:
        found.append(item)
    return found


def waiting_turn() -> Callable[[Any], Coroutine[Any, Any, Result]]:
    async def turn(message: Any) -> Result:
        await trio.sleep_forever()
        raise AssertionError

    return turn


async def failing_turn(message: Any) -> Result:
    raise RuntimeError(f"cannot answer {message['content']}")


# What a bus is.


def test_U1_a_bus_has_four_async_methods() -> None:
    assert all(iscoroutinefunction(getattr(MessageBus, name)) for name in BUS_METHODS)
    assert set(BUS_METHODS) == {name for name in vars(BusProtocol) if not name.startswith("_")}


async def test_U1_messages_and_replies_are_apart() -> None:
    bus = MessageBus()
    await bus.publish_inbound("message")
    await bus.publish_outbound("reply")
    assert await bus.next_outbound() == "reply"
    assert await bus.next_inbound() == "message"


def test_U4_anything_with_the_four_methods_is_a_bus() -> None:
    plain = PlainBus()
    assert check_bus(plain, "redis") is plain
    assert isinstance(plain, BusProtocol)
    assert not isinstance(plain, KeepingBus)
    assert isinstance(check_bus(MessageBus(), "p"), KeepingBus)


@pytest.mark.parametrize("missing", BUS_METHODS)
def test_U5_what_is_no_bus_is_an_error_that_names_the_plugin_and_what_is_missing(missing: str) -> None:
    broken = MessageBus()
    setattr(broken, missing, "not a method")
    with pytest.raises(HookTypeError, match=f"has no {missing}.*plugin `redis`") as refused:
        check_bus(broken, "redis")
    assert [name for name in BUS_METHODS if name in str(refused.value)] == [missing]


# Queues.


async def test_U2_a_full_queue_lets_its_publisher_wait() -> None:
    bus = MessageBus(room=2)
    published: list[int] = []

    async def publish() -> None:
        for number in range(4):
            await bus.publish_inbound(number)
            published.append(number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(publish)
        await wait_all_tasks_blocked()
        assert published == [0, 1]
        assert await bus.next_inbound() == 0
        await wait_all_tasks_blocked()
        assert published == [0, 1, 2]
        assert [await bus.next_inbound() for _ in range(3)] == [1, 2, 3]


async def test_U2_the_time_that_is_given_is_waited_and_then_there_is_none() -> None:
    bus = MessageBus()
    began = trio.current_time()
    assert await bus.next_inbound(2.5) is None
    assert trio.current_time() - began == pytest.approx(2.5)


@pytest.mark.parametrize("seconds", [None, 10])
async def test_U2_a_message_that_comes_while_one_waits_is_returned_at_once(seconds: float | None) -> None:
    bus = MessageBus()

    async def publish_later() -> None:
        await trio.sleep(3)
        await bus.publish_outbound("now")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(publish_later)
        assert await bus.next_outbound(seconds) == "now"
        assert trio.current_time() == pytest.approx(3)


@pytest.mark.parametrize("seconds", [0, -1, 1e-12, 5, None])
async def test_U3_a_message_that_is_there_is_returned_whatever_the_time(seconds: float | None) -> None:
    bus = MessageBus()
    await bus.publish_inbound("there")
    assert await bus.next_inbound(seconds) == "there"


@pytest.mark.parametrize("seconds", [0, -1])
async def test_U3_no_time_polls_an_empty_queue(seconds: float) -> None:
    bus, began = MessageBus(), trio.current_time()
    assert await bus.next_inbound(seconds) is None
    assert trio.current_time() == began


async def test_a_message_is_not_lost_with_who_is_cancelled_before_it_comes() -> None:
    bus = MessageBus()
    await bus.publish_inbound("a")
    with trio.CancelScope() as scope:
        scope.cancel()
        await bus.next_inbound()
    assert scope.cancelled_caught
    with trio.move_on_after(1):
        await bus.next_outbound()
    await bus.publish_outbound("b")
    assert (await bus.next_inbound(0), await bus.next_outbound(0)) == ("a", "b")


async def test_a_message_that_is_given_back_is_the_next_one_even_in_a_full_queue() -> None:
    bus = MessageBus(room=2)
    for name in ("a", "b", "c"):
        if name == "c":
            first = await bus.next_inbound()
        await bus.publish_inbound(name)
    bus.requeue_inbound(first)
    assert await taken(bus.next_inbound) == ["a", "b", "c"]


async def test_of_two_messages_that_are_given_back_the_later_one_is_the_next() -> None:
    bus = MessageBus()
    for name in ("a", "b", "c"):
        await bus.publish_inbound(name)
    for message in reversed([await bus.next_inbound() for _ in range(2)]):
        bus.requeue_inbound(message)
    assert await taken(bus.next_inbound) == ["a", "b", "c"]


async def test_a_message_that_is_given_back_reaches_who_waits_already() -> None:
    bus, found = MessageBus(), []

    async def wait_for_one() -> None:
        found.append(await bus.next_inbound())

    with trio.move_on_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_for_one)
            await wait_all_tasks_blocked()
            bus.requeue_inbound("a")
    assert found == ["a"]
    assert await bus.next_inbound(0) is None


async def test_None_is_no_message_and_a_bus_without_room_is_none() -> None:
    with pytest.raises(BubError, match="None is not a message"):
        await MessageBus().publish_inbound(None)
    with pytest.raises(BubError, match="room"):
        MessageBus(room=0)


plans = st.lists(st.lists(st.sampled_from([0.0, 0.0, 1.0, 2.5]), max_size=6), min_size=1, max_size=4)


@given(
    publishers=plans,
    consumers=st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=3),
    room=st.integers(1, 4),
    give_back=st.sets(st.integers(0, 12)),
)
@settings(max_examples=150, deadline=None)
def test_U2_what_many_publish_comes_out_once_and_in_the_order_of_each(
    publishers: list[list[float]], consumers: list[float], room: int, give_back: set[int]
) -> None:
    """Publishers and consumers at their own pace; some consumers give up in between, some give a message back once."""
    published: list[tuple[int, int]] = []
    received: list[tuple[int, int]] = []
    given_back: set[tuple[int, int]] = set()
    total = sum(len(pauses) for pauses in publishers)
    bus = MessageBus(room=room)

    async def publish(who: int, pauses: list[float]) -> None:
        for number, pause in enumerate(pauses):
            await trio.sleep(pause)
            await bus.publish_inbound((who, number))
            published.append((who, number))

    async def consume(patience: float) -> None:
        takes = 0
        while len(received) < total:
            message = await bus.next_inbound(patience)
            if message is None:
                await trio.sleep(0.25)
                continue
            takes += 1
            if takes in give_back and message not in given_back:
                given_back.add(message)
                bus.requeue_inbound(message)
            else:
                received.append(message)
            assert len(published) - len(received) <= room + len(consumers)

    async def scenario() -> None:
        async with trio.open_nursery() as nursery:
            for who, pauses in enumerate(publishers):
                nursery.start_soon(publish, who, pauses)
            for patience in consumers:
                nursery.start_soon(consume, patience)

    virtually(scenario)
    assert sorted(received) == sorted(published)
    if given_back and len(consumers) > 1:
        return  # who gets a message back and who takes the next one run at the same moment
    for who, pauses in enumerate(publishers):
        assert [number for one, number in received if one == who] == list(range(len(pauses)))


# Turns.


async def test_U6_one_message_is_handled_and_every_reply_is_published() -> None:
    bus = MessageBus()
    for content in ("one", "two"):
        await bus.publish_inbound({"content": content})

    async def turn(message: Any) -> Result:
        return Result([f"re: {message['content']}", "and more"])

    result = await handle_once(bus, turn)
    assert result == Result(["re: one", "and more"])
    assert await taken(bus.next_outbound) == ["re: one", "and more"]
    assert await taken(bus.next_inbound) == [{"content": "two"}]


@pytest.mark.parametrize("outbounds", [None, []])
async def test_U6_a_turn_without_replies_publishes_none(outbounds: list[Any] | None) -> None:
    bus = MessageBus()
    await bus.publish_inbound("a")

    async def turn(message: Any) -> Result:
        return Result(outbounds)

    assert await handle_once(bus, turn) == Result(outbounds)
    assert await bus.next_outbound(0) is None


async def test_U6_without_a_message_there_is_no_turn() -> None:
    assert await handle_once(MessageBus(), failing_turn, timeout_seconds=3) is None
    assert trio.current_time() == pytest.approx(3)


async def test_U7_a_message_whose_turn_fails_is_set_aside_and_that_is_logged(log: list[str]) -> None:
    bus = MessageBus()
    message = {"content": "hi", "session_id": "cli:local"}
    await bus.publish_inbound(message)
    with pytest.raises(RuntimeError, match="cannot answer hi"):
        await handle_once(bus, failing_turn)
    assert await bus.next_inbound(0) is None
    assert bus.aside == ((message, "RuntimeError: cannot answer hi"),)
    assert any(line.startswith("bus.given_back session_id=cli:local") and "cannot answer hi" in line for line in log)
    (kept,) = bus.take_aside()
    bus.requeue_inbound(kept.message)
    assert bus.aside == ()
    assert await bus.next_inbound(0) is message


async def test_U7_what_is_set_aside_is_bounded_and_nothing_is_lost_by_it(log: list[str]) -> None:
    bus = MessageBus(room=2)
    for content in "abc":
        if content == "c":
            with pytest.raises(RuntimeError):
                await handle_once(bus, failing_turn)
        await bus.publish_inbound({"content": content})
    for _ in range(3):
        with pytest.raises(RuntimeError):
            await handle_once(bus, failing_turn, 0)
    assert [kept.message["content"] for kept in bus.aside] == ["a", "b"]
    assert [message["content"] for message in await taken(bus.next_inbound)] == ["c"]
    assert any(line.startswith("bus.no_room_aside messages=2") for line in log)


async def test_U7_a_message_whose_turn_is_cancelled_is_the_next_one_again(log: list[str]) -> None:
    bus = MessageBus()
    for content in ("one", "two"):
        await bus.publish_inbound(content)
    with trio.move_on_after(1):
        await handle_once(bus, waiting_turn())
    assert await taken(bus.next_inbound) == ["one", "two"]
    assert any(line.startswith("bus.given_back") for line in log)


async def test_U7_a_bus_that_cannot_take_a_message_back_gets_it_as_a_new_one() -> None:
    bus = PlainBus(inbound=deque([{"content": "a"}, {"content": "b"}]))
    with pytest.raises(RuntimeError):
        await handle_once(bus, failing_turn)
    assert [message["content"] for message in bus.inbound] == ["b", "a"]
    with trio.move_on_after(1):
        await handle_once(bus, waiting_turn())
    assert [message["content"] for message in bus.inbound] == ["a", "b"]


@pytest.mark.parametrize("how", ["refuses", "stuck"])
async def test_U7_a_bus_that_takes_nothing_back_holds_nobody_up_and_hides_no_error(how: str, log: list[str]) -> None:
    bus = PlainBus(inbound=deque([{"content": "a"}]), **{how: True})
    with trio.fail_after(10 * PATIENCE), pytest.raises(RuntimeError, match="cannot answer a"):
        await handle_once(bus, failing_turn)
    assert trio.current_time() <= PATIENCE
    assert any(line.startswith("bus.message_lost") for line in log)


async def test_U7_a_bus_may_take_messages_back_with_async_methods() -> None:
    class Careful(PlainBus):
        async def requeue_inbound(self, message: Any) -> None:
            await trio.sleep(1)
            self.inbound.appendleft(message)

        async def set_aside(self, message: Any, error: Exception) -> None:
            await trio.sleep(1)
            self.outbound.append(("aside", message))

    bus = Careful(inbound=deque([{"content": "a"}, {"content": "b"}]))
    with trio.move_on_after(1):
        await handle_once(bus, waiting_turn())
    assert [message["content"] for message in bus.inbound] == ["a", "b"]
    with pytest.raises(RuntimeError):
        await handle_once(bus, failing_turn)
    assert list(bus.outbound) == [("aside", {"content": "a"})]


async def test_replies_reach_the_bus_when_the_last_of_them_waits_and_is_cancelled(log: list[str]) -> None:
    bus = MessageBus(room=1)
    await bus.publish_inbound("a")
    found: list[Any] = []

    async def turn(message: Any) -> Result:
        return Result([{"content": number} for number in range(3)])

    async def send_later() -> None:
        await trio.sleep(PATIENCE / 2)
        while (reply := await bus.next_outbound(1)) is not None:
            found.append(reply["content"])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_later)
        with trio.move_on_after(1) as scope:
            await handle_once(bus, turn)
    assert scope.cancelled_caught
    assert found == [0, 1, 2]
    assert await bus.next_inbound(0) is None
    assert log == []


async def test_replies_that_a_bus_has_no_room_for_hold_nobody_up_for_long(log: list[str]) -> None:
    bus = MessageBus(room=1)
    await bus.publish_inbound("a")

    async def turn(message: Any) -> Result:
        return Result([{"content": number, "chat_id": "7"} for number in range(3)])

    with trio.move_on_after(1):
        await handle_once(bus, turn)
    assert trio.current_time() == pytest.approx(1 + PATIENCE)
    assert sum(line.startswith("bus.reply_not_published") and "chat_id=7" in line for line in log) == 2


async def test_U8_a_bus_that_counts_as_false_is_the_bus_that_is_used() -> None:
    bus = PlainBus(inbound=deque([{"content": "a"}]))
    assert not bus

    async def turn(message: Any) -> Result:
        return Result([message])

    assert await handle_once(bus, turn) == Result([{"content": "a"}])
    assert list(bus.outbound) == [{"content": "a"}]
