"""A shared store in memory for several workers, whose requests can be slow, lost, answered in vain, or overtake others.

It keeps to what the scripts of `bub/inbox/shared/redis/` do, and knows more than they: who really had which lease when.
What it finds wrong is in `wrong`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import trio

from bub.base.redis.leases import Lease
from bub.errors import BubError
from bub.inbox.shared.store import Worker
from bub.inbox.store import FencedError

_T = TypeVar("_T")


class AwayError(BubError):
    """A request or its answer was lost."""


@dataclass
class Faults:
    """What befalls the next requests of a worker, each kind (`lease`, `renew`, `read`, `finish`) by itself.

    Each request takes the first fault of its kind, if there is one: the seconds until it reaches the store, those until
    its answer comes, and whether the `request` or the `answer` is lost.
    """

    waiting: dict[str, list[tuple[float, float, str]]] = field(default_factory=dict)

    def take(self, kind: str) -> tuple[float, float, str]:
        """Return what befalls a request."""
        faults = self.waiting.get(kind)
        return faults.pop(0) if faults else (0.001, 0.001, "")


@dataclass
class Entry:
    """A message that waits, and the answers that were ever kept for it."""

    number: int
    partition: int
    answers: list[str] = field(default_factory=list)
    is_done: bool = False


class SharedStore:
    """The store itself; each worker has a `Line` to it. The bugs that a test plants are named by `planted`."""

    def __init__(self, partitions: int, seconds: float, planted: str = "") -> None:
        self.partitions = partitions
        self.seconds = seconds
        self.planted = planted
        self.wrong: list[str] = []
        self.entries: list[Entry] = []
        self.workers: dict[str, Worker] = {}
        self.reported: dict[str, float] = {}
        self.released = trio.lowlevel.ParkingLot()
        self.running: dict[int, dict[Lease, int]] = {}
        """How many turns run in a partition under each lease, whatever the store thinks of that."""
        self._epochs: dict[str, int] = {}
        self._leases: dict[str, tuple[Lease, float]] = {}
        self._expired: set[Lease] = set()

    # Leases, as the scripts have them.

    def holder(self, name: str) -> Lease | None:
        """Return the lease that holds."""
        lease, until = self._leases.get(name, (None, 0.0))
        if lease is not None and trio.current_time() >= until:
            self._expired.add(lease)
            del self._leases[name]
            return None
        return lease

    def take(self, name: str, worker: str) -> Lease | None:
        """Take a free lease."""
        if self.holder(name) is not None:
            return None
        self._epochs[name] = self._epochs.get(name, 0) + 1
        lease = Lease(name, self._epochs[name], worker)
        self._check_that_all_stopped(lease)
        self._leases[name] = (lease, trio.current_time() + self.seconds)
        return lease

    def renew(self, leases: Collection[Lease]) -> list[Lease]:
        """Renew those that hold."""
        held = []
        for lease in leases:
            now = self.holder(lease.name)
            if now == lease or (now is None and self.planted == "renewal after expiry"):
                self._leases[lease.name] = (lease, trio.current_time() + self.seconds)
                held.append(lease)
                if lease in self._expired:
                    self.wrong.append(f"a lease of {lease.worker} was over, and holds again")
        return held

    def release(self, lease: Lease) -> None:
        """Release a lease that holds."""
        if self.holder(lease.name) == lease:
            del self._leases[lease.name]
            self.released.unpark_all()

    def proves(self, lease: Lease) -> bool:
        """Tell whether a step under a lease is let through."""
        now = self.holder(lease.name)
        if self.planted == "no epoch":
            return now is not None and now.worker == lease.worker
        return now == lease

    def _check_that_all_stopped(self, new: Lease) -> None:
        """Who gives a lease back has stopped; only whose lease has run out may not know it yet."""
        kind, _, name = new.name.partition(":")
        for lease, number in self.running.get(int(name), {}).items() if kind == "partition" else ():
            if number and lease not in self._expired:
                self.wrong.append(f"{new.worker} takes {new.name} while {lease.worker} still works on it")

    # Messages.

    def receive(self, partition: int) -> None:
        """Keep a message."""
        self.entries.append(Entry(len(self.entries) + 1, partition))

    def read(self, partition: int, after: int) -> list[Entry]:
        """Return what waits in a partition behind a number."""
        return [one for one in self.entries if one.partition == partition and not one.is_done and one.number > after]

    def finish(self, lease: Lease, number: int, text: str, *, is_proved: bool = False) -> None:
        """Take a message out and keep its answer. Raises `FencedError`."""
        if not is_proved and not self.proves(lease):
            raise FencedError("it is somebody else's")
        if self._epochs[lease.name] != lease.epoch:
            self.wrong.append(f"{lease.worker} answers {number} in epoch {lease.epoch} of {self._epochs[lease.name]}")
        entry = self.entries[number - 1]
        earlier = [one.number for one in self.read(entry.partition, 0) if one.number < number]
        if earlier and not entry.is_done:
            self.wrong.append(f"{number} is answered before {earlier}")
        if not entry.is_done:
            entry.is_done = True
            entry.answers.append(text)


class Line:
    """One worker's way to the store: the part of `SharedInbox` that a `Holder` asks, and messages."""

    def __init__(self, store: SharedStore, name: str, faults: Faults) -> None:
        self._store = store
        self._name = name
        self._faults = faults
        self.leases = self
        self.stopped: trio.Event | None = None
        """Set while the worker is stopped: nothing of it goes on before it is over."""

    @property
    def seconds(self) -> float:
        return self._store.seconds

    @property
    def partitions(self) -> int:
        return self._store.partitions

    async def take(self, name: str, worker: str) -> Lease | None:
        return await self._ask(lambda: self._store.take(name, worker))

    async def renew(self, leases: Collection[Lease]) -> Collection[Lease]:
        return await self._ask(lambda: self._store.renew(leases), "renew")

    async def release(self, lease: Lease) -> None:
        await self._ask(lambda: self._store.release(lease))

    async def wait_for_release(self) -> None:
        await self._store.released.park()
        await self.pause()

    async def holders(self) -> dict[str, str]:
        def find() -> dict[str, str]:
            names = [f"partition:{number}" for number in range(self._store.partitions)]
            found = {name: self._store.holder(name) for name in names}
            return {name: lease.worker for name, lease in found.items() if lease is not None}

        return await self._ask(find)

    async def drop_claim(self, lease: Lease) -> None:
        await self.release(lease)

    async def report(self, worker: Worker) -> None:
        def keep() -> None:
            self._store.workers[worker.name] = worker
            self._store.reported[worker.name] = trio.current_time()

        await self._ask(keep)

    async def workers(self) -> Sequence[Worker]:
        def find() -> list[Worker]:
            since = trio.current_time() - self._store.seconds
            return [one for name, one in self._store.workers.items() if self._store.reported[name] > since]

        return await self._ask(find)

    async def read(self, partition: int, after: int) -> list[Entry]:
        found = await self._ask(lambda: self._store.read(partition, after), "read")
        return [replace(one) for one in found]

    async def finish(self, lease: Lease, number: int, text: str) -> None:
        if self._store.planted == "acknowledge outside the script":
            if not await self._ask(lambda: self._store.proves(lease), "finish"):
                raise FencedError("it is somebody else's")
            await self._ask(lambda: self._store.finish(lease, number, text, is_proved=True), "finish")
            return
        await self._ask(lambda: self._store.finish(lease, number, text), "finish")

    async def pause(self) -> None:
        """Wait for the worker to go on, if it is stopped."""
        while self.stopped is not None:
            await self.stopped.wait()

    async def _ask(self, work: Callable[[], _T], kind: str = "lease") -> _T:
        """Have something done, as slowly and as surely as the faults of the worker say."""
        before, after, lost = self._faults.take(kind)
        done: list[Any] = []

        async def reach() -> None:
            await trio.sleep(before)
            if lost == "request":
                return
            try:
                done.append(("came", work()))
            except BubError as error:
                done.append(("failed", error))

        # What was sent is on its way, whatever becomes of who sent it.
        finished = trio.Event()

        async def send() -> None:
            await reach()
            finished.set()

        trio.lowlevel.spawn_system_task(send)
        await finished.wait()
        await trio.sleep(after)
        await self.pause()
        if lost:
            raise AwayError("the connection was lost")
        kind, came = done[0]
        if kind == "failed":
            raise came
        result: _T = came
        return result
