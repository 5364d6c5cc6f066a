"""Keyed queues: the users of one lane run one after another, lanes run side by side within a limit."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any

import trio


class Ticket:
    """A place in a lane, from the moment it is taken until it is left; `owner` is whoever took it."""

    __slots__ = ("alone", "beyond", "is_reached", "lane", "owner", "task")

    def __init__(self, lane: Hashable, owner: Any, alone: bool, beyond: bool) -> None:
        self.lane = lane
        self.owner = owner
        self.alone = alone
        self.beyond = beyond
        self.is_reached = False
        """Whether its owner may run now."""
        self.task: trio.lowlevel.Task | None = None


class Lanes:
    """Lets one owner run at a time in each lane, first come first served; at most `limit` run at once.

    A lane is what names it, such as a session's id. A place is taken without waiting, so that the order is that of
    the calls of `take`; `reach` waits until its owner may run, and passes no checkpoint if that is so already.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._held: dict[Hashable, tuple[Ticket, ...]] = {}
        self._queues: dict[Hashable, dict[Ticket, None]] = {}
        self._roomless: dict[Ticket, None] = {}
        self._busy = 0

    def take(self, lane: Hashable, owner: Any = None, *, alone: bool = True, beyond: bool = False) -> Ticket:
        """Take the last place in a lane; `leave` it afterwards, whatever happens in between.

        Who need not be `alone` does not wait for the others in the lane. Who goes `beyond` the limit does not wait for
        room: one whom somebody who runs is waiting for.
        """
        place = Ticket(lane, owner, alone, beyond)
        if alone and lane in self._held:
            self._queues.setdefault(lane, {})[place] = None
        else:
            self._hold(place)
        return place

    async def reach(self, place: Ticket) -> None:
        """Wait until the owner of a place may run. Who is cancelled meanwhile still has to `leave` it."""
        if place.is_reached:
            return
        place.task = trio.lowlevel.current_task()

        def give_up(_: Any) -> trio.lowlevel.Abort:
            place.task = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(give_up)

    async def enter(self, lane: Hashable, owner: Any = None, *, alone: bool = True, beyond: bool = False) -> Ticket:
        """Take a place and wait until one may run; who is cancelled meanwhile has no place any more."""
        place = self.take(lane, owner, alone=alone, beyond=beyond)
        try:
            await self.reach(place)
        except BaseException:
            self.leave(place)
            raise
        return place

    def park(self, place: Ticket) -> None:
        """Let somebody else run instead of the owner of a place, who keeps the lane and waits for something long."""
        if place.is_reached:
            place.is_reached = False
            self._busy -= 1
            self._give_room()

    async def unpark(self, place: Ticket) -> None:
        """Wait until the owner of a place that was parked may run again; nothing for one that was not."""
        if place.is_reached:
            return
        if self._has_room(place):
            self._run(place)
        else:
            self._roomless[place] = None
        await self.reach(place)

    def leave(self, place: Ticket) -> None:
        """Give a place back, wherever it was, and let the next ones run, in its lane and in all."""
        queue = self._queues.get(place.lane)
        if queue is not None and place in queue:
            del queue[place]
            if not queue:
                del self._queues[place.lane]
            return
        if not place.is_reached:
            self._roomless.pop(place, None)  # one that is parked waits for no room
        else:
            place.is_reached = False
            self._busy -= 1
            if self._roomless:
                self._give_room()
        self._free(place, queue)

    def widen(self, limit: int | None) -> None:
        """Let so many run at once from now on; those that run already are left alone."""
        self._limit = limit
        self._give_room()

    def holders(self, lane: Hashable) -> tuple[Ticket, ...]:
        """The places whose owners have a lane: they run, or wait only for room."""
        return self._held.get(lane, ())

    def waiting(self, lane: Hashable) -> Collection[Ticket]:
        """The places whose owners wait for a lane, in order."""
        return self._queues.get(lane, ())

    @property
    def is_empty(self) -> bool:
        """Whether nobody has a place in any lane."""
        return not (self._held or self._queues or self._roomless or self._busy)

    def _hold(self, place: Ticket) -> None:
        """Let a place have its lane beside those who have it, and its owner run if there is room."""
        held = self._held.get(place.lane)
        self._held[place.lane] = (place,) if held is None else (*held, place)
        if self._has_room(place):
            self._run(place)
        else:
            self._roomless[place] = None

    def _has_room(self, place: Ticket) -> bool:
        return place.beyond or self._limit is None or self._busy < self._limit

    def _run(self, place: Ticket) -> None:
        self._busy += 1
        place.is_reached = True
        if place.task is not None:
            trio.lowlevel.reschedule(place.task)
            place.task = None

    def _give_room(self) -> None:
        while self._roomless and (self._limit is None or self._busy < self._limit):
            place = next(iter(self._roomless))
            del self._roomless[place]
            self._run(place)

    def _free(self, place: Ticket, queue: dict[Ticket, None] | None) -> None:
        """Take a place out of its lane; if it was the last one there, the lane is handed to who has waited longest."""
        held = self._held.pop(place.lane)
        if len(held) > 1:
            self._held[place.lane] = tuple(one for one in held if one is not place)
        elif queue is not None:
            following = next(iter(queue))
            del queue[following]
            if not queue:
                del self._queues[place.lane]
            self._hold(following)
