"""A gateway's leases by themselves: what begins and ends under them, and in which order."""

from __future__ import annotations

import pytest
import trio
from fakes.shared_store import Faults, Line, SharedStore

from bub.base.redis.leases import Lease
from bub.inbox.shared.holder import Holder
from bub.inbox.shared.share import TURNS
from bub.inbox.shared.store import Worker

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SECONDS = 10.0


class Slow:
    """Takes `seconds` to begin with a partition, and says what happened."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.happened: list[str] = []

    async def begin(self, lease: Lease) -> None:
        self.happened.append(f"begin {lease.epoch}")
        try:
            await trio.sleep(self.seconds)
            self.happened.append(f"begun {lease.epoch}")
        except trio.Cancelled:
            self.happened.append(f"begin {lease.epoch} is given up")
            raise

    async def end(self, lease: Lease, *, is_lost: bool) -> None:
        self.happened.append(f"end {lease.epoch}")

    def is_busy(self, name: str) -> bool:
        return False

    def describe(self, worker: Worker) -> Worker:
        return worker


async def test_what_is_lost_while_it_begins_is_given_up_before_it_ends() -> None:
    store, works = SharedStore(1, SECONDS), Slow(SECONDS)
    line = Line(store, "one", Faults())
    async with trio.open_nursery() as tasks:
        await tasks.start(Holder(line, Worker("one", roles=(TURNS,)), (), works).run)
        await trio.sleep(1.0)
        lease = store.holder("partition:0")
        assert lease is not None
        store.release(lease)
        await trio.sleep(3 * SECONDS)
        tasks.cancel_scope.cancel()
    assert works.happened == ["begin 1", "begin 1 is given up", "end 1", "begin 2", "begun 2"]


async def test_what_is_given_back_while_it_begins_ends_behind_that() -> None:
    store, works = SharedStore(1, SECONDS), Slow(SECONDS / 5)
    holder = Holder(Line(store, "one", Faults()), Worker("one", roles=(TURNS,)), (), works)
    async with trio.open_nursery() as tasks:
        await tasks.start(holder.run)
        await holder.drain()
        tasks.cancel_scope.cancel()
    assert works.happened == ["begin 1", "begun 1", "end 1"]
    assert store.holder("partition:0") is None


async def test_what_is_given_back_is_taken_by_another_at_once() -> None:
    store = SharedStore(4, SECONDS)
    first, second = (
        Holder(Line(store, name, Faults()), Worker(name, roles=(TURNS,)), (), Slow(0)) for name in ("one", "two")
    )
    async with trio.open_nursery() as tasks:
        await tasks.start(first.run)
        await tasks.start(second.run)
        await trio.sleep(SECONDS)
        assert (len(first.leases), len(second.leases)) == (2, 2)
        await first.drain()
        await trio.sleep(SECONDS / 100)
        assert len(second.leases) == 4
        tasks.cancel_scope.cancel()


async def test_what_was_given_back_while_its_renewal_was_on_its_way_is_not_lost() -> None:
    store, works, faults = SharedStore(1, SECONDS), Slow(0), Faults()
    holder = Holder(Line(store, "one", faults), Worker("one", roles=(TURNS,)), (), works)
    async with trio.open_nursery() as tasks:
        await tasks.start(holder.run)
        await trio.sleep(1.0)
        faults.waiting["renew"] = [(2.0, 0.0, "")]
        await trio.sleep(SECONDS / 3)
        await holder.drain()
        await trio.sleep(SECONDS)
        tasks.cancel_scope.cancel()
    assert works.happened == ["begin 1", "begun 1", "end 1"]
    assert holder.losses == 0


async def test_what_is_taken_while_a_gateway_begins_to_drain_is_given_back() -> None:
    store, works, faults = SharedStore(1, SECONDS), Slow(0), Faults()
    holder = Holder(Line(store, "one", faults), Worker("one", roles=(TURNS,)), (), works)
    at_once = (0.001, 0.001, "")
    faults.waiting["lease"] = [at_once, at_once, at_once, (0.5, 1.0, "")]  # report, holders, workers, take
    async with trio.open_nursery() as tasks:
        tasks.start_soon(holder.run)
        await trio.sleep(1.0)
        assert store.holder("partition:0") is not None
        with trio.fail_after(SECONDS):
            await holder.drain()
            await trio.sleep(2.0)
            assert store.holder("partition:0") is None
        tasks.cancel_scope.cancel()
