"""Holds the leases of one gateway: takes what is free, renews what it has, and lets go of what others should have.

A lease counts as lost here, by this process's own clock, before the store may give it to somebody else: the time runs
from before the renewal was sent.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import trio
from msgspec import structs

from bub.base.redis.leases import Lease, Leases
from bub.errors import BubError
from bub.inbox.shared.share import CHANNELS, TURNS, choose_to_give, choose_to_take, fair_share
from bub.inbox.shared.store import Worker
from bub.log import log_info, log_warning

_RENEWALS = 3
"""How many renewals fit into the length of a lease."""

_MARGIN = 0.1
"""Which part of a lease is left when it counts as lost, so that there is time to stop."""


class Store(Protocol):
    """What is asked of a store that is shared (`SharedInbox`)."""

    @property
    def leases(self) -> Leases: ...

    @property
    def partitions(self) -> int: ...

    async def drop_claim(self, lease: Lease) -> None: ...

    async def report(self, worker: Worker) -> None: ...

    async def workers(self) -> Sequence[Worker]: ...


class Holding(Protocol):
    """What a gateway does with its leases."""

    async def begin(self, lease: Lease) -> None:
        """Begin with what a lease names."""

    async def end(self, lease: Lease, *, is_lost: bool) -> None:
        """End with it: when this returns, nothing under this lease runs. Work that `is_lost` is stopped at once."""

    def is_busy(self, name: str) -> bool:
        """Whether something runs under the lease of a name, which should end first."""

    def describe(self, worker: Worker) -> Worker:
        """Complete what is reported of this gateway."""


@dataclass(eq=False, slots=True)
class _Held:
    lease: Lease
    until: float
    """When it counts as lost, by this process's clock."""
    is_ending: bool = False
    is_lost: bool = False
    is_given_back: bool = False
    beginning: trio.CancelScope = field(default_factory=trio.CancelScope)
    begun: trio.Event = field(default_factory=trio.Event)


class Holder:
    """Holds what `worker` should have, with the roles it names, of the channels that it could run."""

    def __init__(self, store: Store, worker: Worker, channels: Collection[str], holding: Holding) -> None:
        self._store = store
        self._worker = worker
        self._channels = tuple(channels) if CHANNELS in worker.roles else ()
        self._holding = holding
        self._held: dict[str, _Held] = {}
        self._tasks: trio.Nursery | None = None
        self._look = trio.Event()
        self._emptied = trio.Event()
        self._keeping = trio.Lock()
        self._is_draining = False
        self.away_since: float | None = None
        """Since when the store cannot be reached, by the process's clock; None if it can."""
        self.renewals = 0
        self.losses = 0

    @property
    def leases(self) -> list[Lease]:
        """The leases under which this gateway works."""
        return [held.lease for held in self._held.values() if held.begun.is_set() and not held.is_lost]

    def lease_of(self, name: str) -> Lease | None:
        """Return the lease of a name under which new work may begin."""
        held = self._held.get(name)
        return held.lease if held is not None and not held.is_ending and not held.is_lost else None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold leases until cancelled; tells `task_status` when it has looked once."""
        async with trio.open_nursery() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._watch)
            tasks.start_soon(self._listen)
            while True:
                began, self._look = trio.current_time(), trio.Event()
                async with self._keeping:
                    await self._keep()
                task_status.started()
                task_status = trio.TASK_STATUS_IGNORED
                with trio.move_on_at(began + self._store.leases.seconds / _RENEWALS):
                    await self._look.wait()

    async def drain(self) -> None:
        """Let go of everything, as soon as it is idle, and take nothing more; returns when nothing is held."""
        self._is_draining = True
        async with self._keeping:  # what is being taken now is held then
            await self._tell()  # so that the others part among themselves what is released
        for held in list(self._held.values()):
            self._give_up(held)
        while self._held:
            self._emptied = trio.Event()
            await self._emptied.wait()

    # Looking, again and again.

    async def _keep(self) -> None:
        """Renew what is held, tell the others, and take or give what should change hands."""
        try:
            with trio.fail_after(self._store.leases.seconds / 2):
                await self._renew()
                await self._report()
                if not self._is_draining:
                    await self._balance()
        except (BubError, trio.TooSlowError) as error:
            self.note_away(error)
        else:
            self.note_back()

    def note_away(self, error: Exception) -> None:
        """Note that the store cannot be reached, in the log, too, if that is new."""
        if self.away_since is None:
            self.away_since = trio.current_time()
            log_warning("store.away", error=error, help=getattr(error, "help", None))

    def note_back(self) -> None:
        """Note that the store can be reached."""
        if self.away_since is not None:
            log_info("store.back", seconds=round(trio.current_time() - self.away_since, 1))
        self.away_since = None

    async def _tell(self) -> None:
        """Tell the others at once how this gateway is, if they can be reached."""
        try:
            with trio.fail_after(self._store.leases.seconds / 2):
                await self._report()
        except (BubError, trio.TooSlowError) as error:
            self.note_away(error)

    async def _report(self) -> None:
        held = [one.lease for one in self._held.values()]
        worker = structs.replace(
            self._worker,
            is_draining=self._is_draining,
            partitions=tuple(sorted(_number_of(one) for one in held if _is_partition(one))),
            channels=tuple(sorted(one.name.removeprefix("channel:") for one in held if not _is_partition(one))),
        )
        await self._store.report(self._holding.describe(worker))

    async def _renew(self) -> None:
        asked = {one.lease: one for one in self._held.values() if not one.is_lost}
        until = self._until()
        holding = set(await self._store.leases.renew(list(asked)))
        self.renewals += len(holding)
        for lease, held in asked.items():
            if lease in holding:
                held.until = max(held.until, until)
            else:
                self._lose(held, "the store has given it to nobody, or somebody else")

    async def _balance(self) -> None:
        holders = await self._store.leases.holders()
        for name in self._channels:
            if f"channel:{name}" not in holders:
                await self._take(f"channel:{name}")
        if TURNS not in self._worker.roles:
            return
        own, number = self._worker.name, self._store.partitions
        share = fair_share(number, await self._store.workers(), own)
        for partition in choose_to_take(number, holders, own, share):
            await self._take(f"partition:{partition}")
        mine = [_number_of(one.lease) for one in self._held.values() if _is_partition(one.lease) and not one.is_ending]
        for partition in choose_to_give(mine, share, lambda one: self._holding.is_busy(f"partition:{one}")):
            self._give_up(self._held[f"partition:{partition}"])

    async def _take(self, name: str) -> None:
        if name in self._held or self._is_draining:
            return  # what this process had before under that name has not ended yet, or all of it is ending
        until = self._until()
        lease = await self._store.leases.take(name, self._worker.name)
        if lease is not None:
            held = self._held[name] = _Held(lease, until)
            assert self._tasks is not None
            self._tasks.start_soon(self._begin, held)

    def _until(self) -> float:
        return trio.current_time() + self._store.leases.seconds * (1 - _MARGIN)

    # From the beginning of a lease to its end.

    async def _begin(self, held: _Held) -> None:
        with held.beginning:
            try:
                await self._holding.begin(held.lease)
            except BubError as error:
                log_warning("lease.not_begun", lease=held.lease.name, error=error)
                self._give_up(held)
        held.begun.set()

    def _give_up(self, held: _Held) -> None:
        if not held.is_ending:
            held.is_ending = True
            assert self._tasks is not None
            self._tasks.start_soon(self._end, held)

    def _lose(self, held: _Held, why: str) -> None:
        if held.is_lost or held.is_given_back:
            return
        held.is_lost = True
        self.losses += 1
        log_warning("lease.lost", lease=held.lease.name, why=why)
        assert self._tasks is not None
        self._tasks.start_soon(self._end, held)

    async def _end(self, held: _Held) -> None:
        """End what runs under a lease, and only then give it back; what has not begun yet is not begun any more."""
        if held.is_lost:
            held.beginning.cancel()
        await held.begun.wait()
        await self._holding.end(held.lease, is_lost=held.is_lost)
        if held.is_given_back:  # what was lost while it ended has ended twice
            return
        held.is_given_back = True
        try:
            await self._store.drop_claim(held.lease)
        except BubError as error:  # it ends by itself
            log_warning("lease.not_released", lease=held.lease.name, error=error)
        self._held.pop(held.lease.name, None)
        self._emptied.set()

    async def _listen(self) -> None:
        """Look at once if somebody has released a lease."""
        while True:
            try:
                await self._store.leases.wait_for_release()
                self._look.set()
            except BubError:  # who looks again and again says so
                await trio.sleep(self._store.leases.seconds / _RENEWALS)

    async def _watch(self) -> None:
        """Lose what could not be renewed in time."""
        while True:
            now = trio.current_time()
            for held in list(self._held.values()):
                if not held.is_lost and now >= held.until:
                    self._lose(held, "it could not be renewed in time")
            coming = [held.until for held in self._held.values() if not held.is_lost]
            await trio.sleep_until(min([now + self._store.leases.seconds / _RENEWALS, *coming]))


def _is_partition(lease: Lease) -> bool:
    return lease.name.startswith("partition:")


def _number_of(lease: Lease) -> int:
    return int(lease.name.partition(":")[2])
