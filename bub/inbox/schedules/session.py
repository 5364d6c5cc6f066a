"""What a turn of a gateway may do with schedules of its own: those of its session alone, within limits."""

from __future__ import annotations

import time
from contextvars import ContextVar

from bub.errors import BubError
from bub.inbox.batch import Batch
from bub.inbox.schedules.own import OwnSchedule
from bub.inbox.store import InboxStore
from bub.pipeline.plan.schedules.moments import check_moments, shortest_pause

SHORTEST_PAUSE = 900.0
"""How many seconds lie between two moments of a schedule that the agent has made, at least."""

LONGEST_MESSAGE = 4_000
"""How many letters its message may have."""


class SessionSchedules:
    """The schedules of the session that a batch belongs to, in `store`; `fires` says whether anybody fires them."""

    def __init__(self, store: InboxStore, batch: Batch, *, fires: bool = True) -> None:
        self._store = store
        self._batch = batch
        self._turn = batch.turn
        self._fires = fires

    async def add(self, cron: str, timezone: str, message: str, *, once: bool, most: int) -> OwnSchedule:
        """Keep a schedule for this session and the profile of this turn, which may have `most` of them.

        Raises `BubError`, which says what to do, for one that means nothing or too much.
        """
        asked = self._batch.message
        if any(item.firing is not None for item in self._batch.items):
            raise BubError("a turn that a schedule began makes no schedules", help="let a person ask for it")
        if not self._fires:
            raise BubError("nothing fires schedules here", help="only a chat that a gateway serves can have schedules")
        if not message.strip() or len(message) > LONGEST_MESSAGE:
            raise BubError(f"the message has to have 1 to {LONGEST_MESSAGE} letters", help="say it in fewer words")
        check_moments(cron, timezone)
        pause = shortest_pause(cron, timezone, time.time())
        if pause < SHORTEST_PAUSE:
            raise BubError(
                f"`{cron}` fires every {pause / 60:g} minutes, and {SHORTEST_PAUSE / 60:g} is the shortest pause",
                help="let it fire less often; shorter ones belong into the file",
            )
        wanted = OwnSchedule(
            "",
            cron,
            message,
            f"{asked.channel}:{asked.chat_id}",
            timezone,
            self._turn.profile.name,
            session_id=asked.session_id,
            sender_id=asked.sender_id,
            once=once,
        )
        made = await self._store.add_schedule(wanted, most)
        if made is None:
            raise BubError(
                f"the profile has {most} schedules already, and may not have more", help="remove one that is not needed"
            )
        return made

    async def list(self) -> list[OwnSchedule]:
        """List the schedules of this session."""
        return [one for one in await self._store.own_schedules() if self._is_of_session(one)]

    async def remove(self, name: str) -> bool:
        """Remove a schedule of this session; False if it has none of that name."""
        if not any(one.name == name for one in await self.list()):
            return False
        return await self._store.remove_schedule(name)

    def _is_of_session(self, schedule: OwnSchedule) -> bool:
        asked = self._batch.message
        return (schedule.channel, schedule.chat_id, schedule.session_id) == (
            asked.channel,
            asked.chat_id,
            asked.session_id,
        )


current_schedules: ContextVar[SessionSchedules | None] = ContextVar("bub_schedules", default=None)
"""Those of the session whose turn a task belongs to; set where a gateway answers."""
