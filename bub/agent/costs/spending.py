"""What a profile has used today, kept with the tapes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import trio

from bub.agent.journal import WRITING_PATIENCE
from bub.tape import Tape, TapeEntry

_AT_ONCE = 100
"""Of how many answers that end at the same moment all are counted."""


class DailySpending:
    """The tokens that a profile has used today, kept with the tapes, so that all turns and processes share them.

    Without a `store`, nothing is known of other turns.
    """

    def __init__(self, store: Any, profile: str) -> None:
        self._tape = Tape(f"budget__sidecar__{profile}", store) if store is not None else None

    async def today(self) -> int:
        """How many there are so far; a day is one in UTC."""
        total, _ = await self._count_day(_day())
        return total

    async def add(self, tokens: int) -> None:
        """Add what an answer has used, whoever wants to leave meanwhile."""
        if self._tape is None or not tokens:
            return
        with trio.CancelScope(shield=True, deadline=trio.current_time() + WRITING_PATIENCE):
            day = _day()
            before, upto = await self._count_day(day)
            spent = {"day": day, "tokens": tokens, "before": before, "upto": upto}
            await self._tape.append(TapeEntry.event("tokens", spent))

    async def _count_day(self, day: str) -> tuple[int, int]:
        """The tokens of a day, and the entry up to which they are counted.

        Each entry says what was spent, and what had been spent before, as far as who wrote it knew: `upto` which entry.
        What others wrote behind that at the same moment is added, so reading a few entries counts all of them.
        """
        if self._tape is None:
            return 0, 0
        entries = await self._tape.search(self._tape.query(), most=_AT_ONCE)
        if not entries:
            return 0, 0
        newest = entries[0].payload["data"]
        if newest["day"] != day:
            return 0, entries[0].id
        spent = [entry.payload["data"] for entry in entries if entry.id > newest["upto"]]
        tokens = sum(one["tokens"] for one in spent if one["day"] == day)
        return newest["before"] + tokens, entries[0].id


def _day() -> str:
    return datetime.now(UTC).date().isoformat()
