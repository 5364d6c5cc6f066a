"""One gateway of several on a shared inbox: works on partitions and channels as their leases come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import trio
from msgspec import structs

from bub.base.backoff import Backoff
from bub.base.counts import Counts
from bub.base.redis.keys import partition_of_id
from bub.base.redis.leases import Lease
from bub.channels.channel import Desk
from bub.channels.supervisor import RunningChannels
from bub.errors import BubError
from bub.inbox.approvals import LOOK_AT_TURNS, Approvals
from bub.inbox.batch import Batch
from bub.inbox.dispatcher import MOST_INTERRUPTIONS, Dispatcher
from bub.inbox.intake import Intake
from bub.inbox.ledger import Ledger
from bub.inbox.outbox import Outbox
from bub.inbox.shared.holder import Holder
from bub.inbox.shared.store import SharedInbox, Worker
from bub.inbox.shared.troubles import trouble_of
from bub.inbox.store import FencedError, Id, Received
from bub.log import log_info, log_warning

AWAY_PAUSE = 1.0
"""How long, in seconds, a store that cannot be read is left alone."""

OPENING = Backoff(0.5, longest=5.0, spread=0.2)
"""How long to wait before a store that is away at the start is tried again."""

DELIVERING = 5.0
"""How long, in seconds, a delivery under way may take when its channel goes elsewhere."""


class Sharing:
    """Leads the parts of one manager by the leases that it has; `grace` bounds the turns of what is given away."""

    def __init__(
        self,
        store: SharedInbox,
        worker: Worker,
        channels: Collection[str],
        *,
        running: RunningChannels,
        ledger: Ledger,
        intake: Intake,
        dispatcher: Dispatcher,
        approvals: Approvals,
        outbox: Outbox,
        hand_on: Callable[[list[Received], Callable[[list[Any]], None]], Awaitable[None]],
        grace: float,
    ) -> None:
        self._store = store
        self.worker = worker
        self._channels = frozenset(channels)
        self._running = running
        self._ledger = ledger
        self._intake = intake
        self._dispatcher = dispatcher
        self._approvals = approvals
        self._outbox = outbox
        self._hand_on = hand_on
        self._grace = grace
        self._holder = Holder(store, worker, channels, self)
        self._desk: Desk | None = None
        self._tasks: trio.Nursery | None = None
        self._settled = trio.lowlevel.ParkingLot()
        self._unknown: set[str] = set()
        self._going_back: dict[Lease, set[Id]] = {}
        """The partitions that are begun again, and the messages of which an attempt does not count."""

    @property
    def holder(self) -> Holder:
        """Who holds the leases."""
        return self._holder

    def describe_state(self) -> Mapping[str, Any]:
        """Describe what this gateway works on, for `/healthz`."""
        holder = self._holder
        return {
            "worker": self.worker.name,
            "roles": self.worker.roles,
            "partitions": sorted(int(name) for name in self._held("partition")),
            "of": self._store.partitions,
            "channels": sorted(self._held("channel")),
            "lag": round(self._ledger.oldest, 3),
            "renewals": holder.renewals,
            "lost": holder.losses,
            "fenced": self._store.fenced,
            "store": "ok" if holder.away_since is None else f"away for {self._away:.0f} s",
        }

    def count_in(self, counts: Counts) -> None:
        """Let this be seen by whoever watches the runtime."""
        counts.gauge("owned_partitions", lambda: len(self._held("partition")))
        counts.gauge("owned_channels", lambda: len(self._held("channel")))
        counts.gauge("store_away_seconds", lambda: self._away)
        counts.total("lease_renewals", lambda: self._holder.renewals)
        counts.total("leases_lost", lambda: self._holder.losses)
        counts.total("fenced_writes", lambda: self._store.fenced)

    def _held(self, kind: str) -> list[str]:
        found = (lease.name.partition(":") for lease in self._holder.leases)
        return [name for its, _, name in found if its == kind]

    @property
    def _away(self) -> float:
        """For how many seconds the store could not be reached."""
        since = self._holder.away_since
        return 0.0 if since is None else trio.current_time() - since

    def lease_of(self, id: Id) -> Lease | None:  # noqa: A002 (what a message in a store is known by)
        """Return the lease under which a message is answered; None if it is not ours to begin."""
        return self._holder.lease_of(f"partition:{partition_of_id(id)}")

    def may_begin(self, id: Id) -> bool:  # noqa: A002 (as above)
        """Return whether a message may begin here now: its partition is ours, and is not about to be read again."""
        lease = self.lease_of(id)
        return lease is not None and lease not in self._going_back

    def note_settled(self) -> None:
        """A turn or a delivery has ended."""
        self._settled.unpark_all()

    async def open(self) -> None:
        """Open the store, and wait for it as long as it is away. Raises `MailboxError` if it may not be used."""
        failures = 0
        while True:
            try:
                await self._store.open()
            except BubError as error:
                if trouble_of(error) != "away":
                    raise
                failures += 1
                self._holder.note_away(error)
                await trio.sleep(OPENING.pause_after(failures))
            else:
                self._holder.note_back()
                return

    async def run(
        self, tasks: trio.Nursery, desk: Desk, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Work until cancelled; tells `task_status` when it has looked for what there is to do once."""
        self._tasks, self._desk = tasks, desk
        self._running.attach(tasks, desk)
        async with trio.open_nursery() as own:
            own.start_soon(self._feed, self._take_messages)
            own.start_soon(self._feed, self._take_replies)
            await own.start(self._holder.run)
            task_status.started()

    async def drain(self) -> None:
        """Hand everything over to the others, as soon as it is idle."""
        await self._holder.drain()

    # What the leases bring (`Holding`).

    async def begin(self, lease: Lease) -> None:
        """Begin with a partition or a channel."""
        kind, _, name = lease.name.partition(":")
        if kind == "partition":
            waiting = self._ledger.take_in(self._known(await self._store.claim_partition(lease)))
            await self._hand_on(count_anew(waiting), self._intake.take_up)
            return
        assert self._tasks is not None
        log_info("channel.taken", channel=name)
        await self._running.switch(self._tasks, name, runs=True)
        # Nothing is waited for between these: what comes in meanwhile goes out behind what was there.
        for reply in await self._store.claim_channel(lease):
            self._outbox.add(reply)

    async def end(self, lease: Lease, *, is_lost: bool) -> None:
        """End with a partition or a channel."""
        kind, _, name = lease.name.partition(":")
        if kind == "partition":
            await self._end_partition(int(name), is_lost=is_lost)
            return
        assert self._tasks is not None
        log_info("channel.left", channel=name)
        await self._running.switch(self._tasks, name, runs=False)
        await self._outbox.leave(name, 0.0 if is_lost else DELIVERING)

    def is_busy(self, name: str) -> bool:
        """Return whether a turn is under way in a partition."""
        kind, _, number = name.partition(":")
        return kind == "partition" and bool(self._dispatcher.batches_of(_is_in(int(number))))

    def describe(self, worker: Worker) -> Worker:
        """Complete what is reported of this gateway."""
        turns, waiting = len(self._dispatcher), len(self._ledger)
        return structs.replace(worker, turns=turns, waiting=waiting, fenced=self._store.fenced)

    async def _end_partition(self, partition: int, *, is_lost: bool) -> None:
        is_meant = _is_in(partition)
        if not is_lost:
            self._intake.drop(is_meant)
            self._dispatcher.leave(is_meant, at_once=False)
            with trio.move_on_after(self._grace):
                while not self._approvals.are_only_asking(self._dispatcher.batches_of(is_meant)):
                    with trio.move_on_after(LOOK_AT_TURNS):
                        await self._settled.park()
        self._dispatcher.leave(is_meant, at_once=True)
        self._intake.drop(is_meant)
        await self._wait_for_turns(is_meant)
        self._ledger.drop(is_meant)

    async def _wait_for_turns(self, is_meant: Callable[[Id], bool]) -> None:
        while self._dispatcher.batches_of(is_meant):
            await self._settled.park()

    def steps_aside(self, batch: Batch, error: BaseException) -> bool:
        """Tell whether a turn failed since the store did: then nobody apologises, and its messages wait there."""
        trouble = trouble_of(error)
        if trouble is None or self._tasks is None:
            return False
        log_warning("turn.stepped_aside", why=trouble, messages=len(batch.ids), error=error)
        if trouble == "away":
            for partition in {partition_of_id(one) for one in batch.ids}:
                self._go_back(partition, [one for one in batch.begun if partition_of_id(one) == partition])
        return True

    def _go_back(self, partition: int, begun: Sequence[Id]) -> None:
        """Begin with a partition again as soon as the store is back: what waits there overtakes no turn that failed.

        Turns under way go on. Of `begun` messages, the attempt does not count.
        """
        lease = self._holder.lease_of(f"partition:{partition}")
        if lease is None:
            return
        is_meant = _is_in(partition)
        self._intake.drop(is_meant)
        self._dispatcher.leave(is_meant, at_once=False)
        if lease not in self._going_back:
            assert self._tasks is not None
            self._tasks.start_soon(self._begin_anew, lease)
        self._going_back.setdefault(lease, set()).update(begun)

    async def _begin_anew(self, lease: Lease) -> None:
        try:
            while True:
                await trio.sleep(AWAY_PAUSE)
                if self._holder.lease_of(lease.name) != lease:
                    return
                try:
                    await self._read_anew(lease)
                except FencedError:
                    return
                except BubError as error:
                    log_warning("store.unreadable", error=error, again_in=AWAY_PAUSE)
                else:
                    return
        finally:
            self._going_back.pop(lease, None)

    async def _read_anew(self, lease: Lease) -> None:
        partition = int(lease.name.partition(":")[2])
        is_meant, begun = _is_in(partition), self._going_back[lease]
        while not all(batch.is_running for batch in self._dispatcher.batches_of(is_meant)):
            await self._settled.park()
        while begun:
            one = next(iter(begun))
            await self._store.give_back([one])
            begun.discard(one)
        waiting = self._known(await self._store.read_anew(lease))
        if self._holder.lease_of(lease.name) != lease:
            return
        # Nothing is waited for between these: what comes in from now on is behind what was read.
        under_way = {one for batch in self._dispatcher.batches_of(is_meant) for one in batch.ids}
        self._ledger.let_go(lambda one: is_meant(one) and one not in under_way)
        del self._going_back[lease]
        await self._hand_on(count_anew(self._ledger.take_in(waiting)), self._intake.take_up)

    # What the streams bring.

    async def _feed(self, take: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await take()
            except BubError as error:
                log_warning("store.unreadable", error=error, again_in=AWAY_PAUSE)
                await trio.sleep(AWAY_PAUSE)

    async def _take_messages(self) -> None:
        found = self._known(await self._store.wait_for_messages())
        self._intake.take_in(found)

    async def _take_replies(self) -> None:
        for reply in await self._store.wait_for_replies():
            if self._holder.lease_of(f"channel:{reply.message.channel}") is not None:
                self._outbox.add(reply)

    def _known(self, found: Sequence[Received]) -> list[Received]:
        """Leave out messages of channels that this gateway does not know; another version of it may."""
        for one in found:
            if one.message.channel not in self._channels | self._unknown:
                self._unknown.add(one.message.channel)
                log_warning("inbox.unknown_channel", channel=one.message.channel)
        return [one for one in found if one.message.channel in self._channels]


def count_anew(found: Sequence[Received]) -> list[Received]:
    """Let messages that were moved as one wait only for those of it that are still there and are not given up.

    `found` is all that waits of them.
    """
    left = [one for one in found if one.attempts < MOST_INTERRUPTIONS]
    there = Counter(one.arrival.first for one in left if one.arrival is not None)
    return [
        replace(one, arrival=replace(one.arrival, number=there[one.arrival.first]))
        if one.arrival is not None and one.attempts < MOST_INTERRUPTIONS
        else one
        for one in found
    ]


def _is_in(partition: int) -> Callable[[Id], bool]:
    return lambda one: partition_of_id(one) == partition
