"""Lets schedules fire: looks at the wall clock again and again, and hands on what is due."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import trio

from bub.base.counts import Counts
from bub.channels.message import ChannelMessage
from bub.inbox.framework import Framework
from bub.inbox.schedules.firing import Firing, Followed
from bub.inbox.schedules.message import firing_of, message_of
from bub.inbox.schedules.own import OwnSchedule
from bub.inbox.store import InboxStore
from bub.log import log_exception, log_info, log_warning
from bub.pipeline.plan.schedules.moments import count_moments, last_moment, moments_after
from bub.pipeline.plan.schedules.schedule import LAST, Schedule

LATE = 300.0
"""How many seconds behind its moment a firing is only late. Above that it was missed, and `catch_up` decides."""

LOOK_AGAIN = 1.0
"""How often, in seconds, the wall clock is read: it may be set, and a machine may sleep."""

_AGAIN = 5.0
"""How long, in seconds, a store that failed is left alone."""

_OWN_AGAIN = 5.0
"""How often, in seconds, it is asked whether the agent has made schedules, or somebody has removed one."""

_T = TypeVar("_T")

Wall = Callable[[], float]
"""Says which Unix time it is, as far as anybody knows."""


class Fire(Protocol):
    """Takes in the message of a firing; False if that was claimed before."""

    def __call__(self, firing: Firing, message: ChannelMessage, *, until: float, missed: int) -> Awaitable[bool]: ...


@dataclass(slots=True)
class _Watched:
    """A schedule that is followed: every moment up to `since` is decided, `next` is the first one behind that."""

    schedule: Schedule
    since: float
    next: float | None
    last: float | None
    missed: int


class Scheduler:
    """Follows the schedules of a framework, as they are loaded, and fires each moment once.

    `fire` takes messages in, `runs` says whether a channel is there to take them, `wall` reads the clock. All that is
    decided is in the store: another process, or this one started again, goes on from there.
    """

    def __init__(
        self,
        framework: Framework,
        store: InboxStore,
        counts: Counts,
        *,
        fire: Fire,
        runs: Callable[[str], bool],
        wall: Wall = time.time,
    ) -> None:
        self._framework = framework
        self._store = store
        self._counts = counts
        self._fire = fire
        self._runs = runs
        self._wall = wall
        self._watched: dict[str, _Watched] = {}
        self._own: list[OwnSchedule] = []
        self._own_until = -_OWN_AGAIN
        self._has_failed = False

    @property
    def states(self) -> dict[str, dict[str, Any]]:
        """How each schedule is: the `next` moment and the `last` that fired, as Unix times; how many were `missed`."""
        return {name: {"next": one.next, "last": one.last, "missed": one.missed} for name, one in self._watched.items()}

    async def run(self) -> None:
        """Follow the schedules until cancelled."""
        while True:
            pause = await self.look()
            await trio.sleep(pause)

    async def look(self) -> float:
        """Fire what is due; return for how many seconds there is nothing to do, as far as can be known."""
        schedules = await self._attempt("", self._find_schedules)
        for name, schedule in (schedules or {}).items():
            await self._attempt(name, self._see_to, schedule)
        if self._has_failed:
            self._has_failed = False
            return _AGAIN
        now = self._wall()
        coming = (max(one.next - now, 0.0) for one in self._watched.values() if one.next is not None)
        return min((LOOK_AGAIN, *coming))

    async def _attempt(self, name: str, work: Callable[..., Awaitable[_T]], *given: Any) -> _T | None:
        """Do something about a schedule; what fails is tried again later, and keeps no other schedule from firing."""
        try:
            return await work(*given)
        except Exception as error:  # noqa: BLE001 (a schedule that fails must not end the channels)
            self._has_failed = True
            self._counts.failure("schedule")
            log_exception("schedule.failed", error, schedule=name, again_in=_AGAIN)
            return None

    async def _find_schedules(self) -> dict[str, Schedule]:
        """Find what is loaded by now, and what the agent has made; what is gone is forgotten."""
        if trio.current_time() >= self._own_until:
            self._own = await self._store.own_schedules()
            self._own_until = trio.current_time() + _OWN_AGAIN
        schedules: dict[str, Schedule] = {one.name: one for one in (*self._framework.schedules, *self._own)}
        for name in self._watched.keys() - schedules.keys():
            await self._store.unfollow(name)
            del self._watched[name]
        return schedules

    async def _follow(self, schedule: Schedule) -> _Watched:
        """Follow a schedule from where it is; one that is new, or has another rule now, begins now."""
        watched = self._watched.get(schedule.name)
        if watched is None or watched.schedule.rule != schedule.rule:
            followed = await self._store.follow(schedule.name, schedule.rule, self._wall())
            watched = self._watched[schedule.name] = _watch(schedule, followed)
        watched.schedule = schedule
        return watched

    async def _see_to(self, schedule: Schedule) -> None:
        watched, now = await self._follow(schedule), self._wall()
        if now < watched.since:  # the clock was set back: what fired since then does not fire again
            await self._pass_over(watched, now, 0)
        elif watched.next is not None and watched.next <= now:
            await self._decide(watched, now)

    async def _decide(self, watched: _Watched, now: float) -> None:
        """Fire the last moment that is due, or miss it; those before it are missed."""
        schedule, since = watched.schedule, watched.since
        moment = last_moment(schedule.cron, schedule.timezone, since, now)
        number = count_moments(schedule.cron, schedule.timezone, since, now)
        assert moment is not None
        where: dict[str, Any] = {"schedule": schedule.name, "channel": schedule.channel, "chat": schedule.chat_id}
        if not self._runs(schedule.channel):
            log_warning("schedule.no_channel", **where)
        elif schedule.profile is not None and schedule.profile not in self._framework.profiles:
            log_warning("schedule.no_profile", **where, profile=schedule.profile)
        elif now - moment <= LATE or schedule.catch_up == LAST:
            missed = number - 1
            if await self._fire(firing_of(schedule, moment), message_of(schedule), until=now, missed=missed):
                self._counts.schedule(schedule.name, "fired")
                log_info("schedule.fired", **where, late=round(now - moment, 3), missed=missed)
                watched.last = moment
                if isinstance(schedule, OwnSchedule) and schedule.once:
                    await self._store.remove_schedule(schedule.name)
                    self._own_until = -_OWN_AGAIN
            else:
                self._counts.schedule(schedule.name, "taken")
            self._move(watched, now, missed)
            return
        log_warning("schedule.missed", **where, missed=number)
        await self._pass_over(watched, now, number)

    async def _pass_over(self, watched: _Watched, until: float, missed: int) -> None:
        await self._store.pass_over(watched.schedule.name, until=until, missed=missed)
        self._move(watched, until, missed)

    def _move(self, watched: _Watched, since: float, missed: int) -> None:
        watched.since, watched.missed = since, watched.missed + missed
        watched.next = _next_moment(watched.schedule, since)
        if missed:
            self._counts.schedule(watched.schedule.name, "missed", missed)


def _watch(schedule: Schedule, followed: Followed) -> _Watched:
    since = followed.since
    return _Watched(schedule, since, _next_moment(schedule, since), followed.last, followed.missed)


def _next_moment(schedule: Schedule, after: float) -> float | None:
    return next(moments_after(schedule.cron, schedule.timezone, after), None)
