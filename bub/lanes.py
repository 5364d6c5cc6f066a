"""Who may run now: turns of one lane one after another in the order they came, lanes side by side within a limit."""

from __future__ import annotations

from collections.abc import Hashable

import trio


class Lanes:
    """Keeps one turn at a time in each lane, first come first served; at most `limit` lanes are busy at once.

    A lane is what names it, such as a session's id. Where a lane is free nothing waits, and no checkpoint is passed.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._queues: dict[Hashable, trio.lowlevel.ParkingLot | None] = {}
        self._waiting = trio.lowlevel.ParkingLot()
        self._busy = 0

    def enter_now(self, lane: Hashable, *, beyond: bool = False) -> bool:
        """Take a lane if it is free and there is room, without waiting; says whether it did.

        Who goes `beyond` the limit does not wait for room: one whom somebody in another lane is waiting for.
        """
        if lane in self._queues or not (beyond or self._has_room):
            return False
        self._queues[lane] = None
        self._busy += 1
        return True

    async def enter(self, lane: Hashable, *, beyond: bool = False) -> None:
        """Wait until one may run in a lane; `leave` it afterwards, whatever happens in between."""
        if lane not in self._queues:
            self._queues[lane] = None
        else:
            queue = self._queues[lane]
            if queue is None:
                queue = self._queues[lane] = trio.lowlevel.ParkingLot()
            await queue.park()  # whoever leaves hands the lane over
        if beyond or self._has_room:
            self._busy += 1
            return
        try:
            await self._waiting.park()  # whoever leaves hands the place over
        except BaseException:
            self._free(lane)
            raise

    def leave(self, lane: Hashable) -> None:
        """Let the next one run, in this lane and in all."""
        self._busy -= 1
        if self._waiting and self._has_room:
            self._busy += 1
            self._waiting.unpark()
        self._free(lane)

    @property
    def _has_room(self) -> bool:
        return self._limit is None or self._busy < self._limit

    def _free(self, lane: Hashable) -> None:
        queue = self._queues[lane]
        if queue:
            queue.unpark()
        else:
            del self._queues[lane]
