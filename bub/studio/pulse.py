"""What the page shows at its edge, such as how many questions wait: asked of the stores while a browser looks.

How often depends on what it costs: a store with much in it is asked less often.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import trio

from bub.errors import BubError
from bub.log import log_exception
from bub.studio.desks import Desk
from bub.studio.surroundings import Surroundings

_QUESTIONS_EVERY, _ENTRIES_EVERY = 1.0, 10.0
_SHARE = 50
"""How many seconds there are between two looks, and how many times as long as one took."""

_SLOWEST = 5
"""How many times as seldom it looks at most: a machine that is busy makes one look long."""


class Pulse:
    """Numbers of what waits, by what `desks` say, and how `around` is."""

    def __init__(self, desks: Sequence[Desk], around: Surroundings) -> None:
        self._desks = desks
        self._around = around
        self.browsers = 0
        """How many browsers look."""
        self._before_questions, self._before_entries = trio.lowlevel.ParkingLot(), trio.lowlevel.ParkingLot()
        self._approvals = 0
        self._entries = {"waiting": 0, "outgoing": 0, "dead": 0}
        self._health = ""

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look around for a browser, as long as the block lasts."""
        self.browsers += 1
        self.look_again()
        try:
            yield
        finally:
            self.browsers -= 1

    def look_again(self) -> None:
        """Look at once: something has been answered, dropped or tried again."""
        self.look_at_questions()
        self._before_entries.unpark_all()

    def look_at_questions(self) -> None:
        """Look at once which questions there are."""
        self._before_questions.unpark_all()

    def describe(self) -> dict[str, Any]:
        """Return what was seen last."""
        return {
            "approvals": self._approvals,
            "inbox": dict(self._entries),
            "health": self._health or str(self._around.describe_health().get("status", "ok")),
            "reload": self._around.times_reloaded,
        }

    async def run(self) -> None:
        """Look while there are browsers, until cancelled."""
        async with trio.open_nursery() as tasks:
            tasks.start_soon(self._keep_looking, self._count_questions, _QUESTIONS_EVERY, self._before_questions)
            tasks.start_soon(self._keep_looking, self._count_entries, _ENTRIES_EVERY, self._before_entries)

    async def _keep_looking(
        self, look: Callable[[], Awaitable[None]], pause: float, lot: trio.lowlevel.ParkingLot
    ) -> None:
        while True:
            if not self.browsers:
                await lot.park()
            began = trio.current_time()
            try:
                await look()
            except BubError as error:
                log_exception("studio.inbox_unreadable", error)
            longer = min((trio.current_time() - began) * _SHARE, pause * _SLOWEST)
            with trio.move_on_after(max(pause, longer)):
                await lot.park()

    async def _count_questions(self) -> None:
        self._health = str(self._around.describe_health().get("status", "ok"))
        self._approvals = sum([len(await desk.questions()) for desk in self._desks])

    async def _count_entries(self) -> None:
        entries = [entry for desk in self._desks for entry in await desk.entries()]
        waiting = [entry for entry in entries if entry.reason is None]
        outgoing = sum(entry.kind == "reply" for entry in waiting)
        self._entries = {
            "waiting": len(waiting) - outgoing,
            "outgoing": outgoing,
            "dead": len(entries) - len(waiting),
        }
