"""What a profile has used today, kept with the tapes."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any

import trio

from bub.agent.journal import WRITING_PATIENCE
from bub.errors import TapeError
from bub.tape import Tape, TapeEntry
from bub.tape.tape import SIDECAR, list_tapes

_AT_ONCE = 50
"""How many entries are read at first: more than are mostly written at the same moment."""


class DailySpending:
    """The tokens that a profile has used today, kept with the tapes, so that all turns and processes share them.

    Each day has a tape of its own, so that two machines whose clocks differ count for the same days. Without a `store`,
    nothing is known of other turns.
    """

    def __init__(self, store: Any, profile: str) -> None:
        self._store = store
        self._name = f"budget{SIDECAR}{profile}"

    async def today(self) -> int:
        """How many there are so far; a day is one in UTC."""
        if self._store is None:
            return 0
        total, _ = await _count(self._tape_of(_day()))
        return total

    async def add(self, tokens: int) -> None:
        """Add what an answer has used, whoever wants to leave meanwhile."""
        if self._store is None or not tokens:
            return
        with trio.CancelScope(shield=True, deadline=trio.current_time() + WRITING_PATIENCE):
            day = _day()
            tape = self._tape_of(day)
            before, upto = await _count(tape)
            spent = {"day": day, "tokens": tokens, "before": before, "upto": upto}
            await tape.append(TapeEntry.event("tokens", spent))
            if upto == 0:
                with suppress(TapeError):  # what is left there is in nobody's way, and the next day tries again
                    await self._forget_days(day)

    def _tape_of(self, day: str) -> Tape:
        return Tape(f"{self._name}__{day}", self._store)

    async def _forget_days(self, day: str) -> None:
        """Remove the tapes of the days before yesterday: no clock is so slow that anybody counts there."""
        yesterday = (date.fromisoformat(day) - timedelta(days=1)).isoformat()
        for name in await list_tapes(self._store):
            found = name.removeprefix(f"{self._name}__")
            if name == self._name or (found != name and _is_day(found) and found < yesterday):
                await Tape(name, self._store).forget()


async def _count(tape: Tape) -> tuple[int, int]:
    """The tokens of a day, and the entry up to which they are counted.

    Each entry says what was spent, and what had been spent before, as far as who wrote it knew: `upto` which entry.
    What others wrote behind that at the same moment is added, so reading a few entries counts all of them.
    """
    most = _AT_ONCE
    while entries := await tape.search(tape.query(), most=most):
        newest = entries[0].payload["data"]
        upto = newest["upto"]
        if entries[-1].id <= upto + 1:
            return newest["before"] + sum(one.payload["data"]["tokens"] for one in entries if one.id > upto), entries[
                0
            ].id
        most = entries[0].id - upto + _AT_ONCE  # what comes meanwhile is among them
    return 0, 0


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _day() -> str:
    return datetime.now(UTC).date().isoformat()
