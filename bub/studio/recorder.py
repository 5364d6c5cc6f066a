"""What is remembered of turns for the page: the last ones, numbers of stages, minutes. Nothing grows without end.

A turn's end costs some microseconds; whatever else there is to compute, a browser that asks has computed for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from bub.runtime.message_turn import MessageTurn
from bub.studio.numbers import FAILURES, Minutes, StageError, StageNumbers
from bub.studio.rows import PastTurn, past_of

MOST_TURNS = 1_000
_MOST_WEIGHT = 40_000
"""How many turns are remembered, and how many stages and activities of all of them."""

_MOST_STAGES = 5_000
_ERROR = 1_000


class Recorder:
    """Watches the turns of a runtime (`RuntimeView.watch`)."""

    def __init__(self) -> None:
        self._turns: dict[str, PastTurn] = {}
        self._weight = 0
        self.ended = 0
        """How many turns are over."""
        self.stages: dict[tuple[str, str], StageNumbers] = {}
        """By profile and stage."""
        self.minutes = Minutes()

    def __len__(self) -> int:
        return len(self._turns)

    def turn_began(self, turn: MessageTurn) -> None:
        """Leave it alone: whoever wants to know looks at the turns under way."""

    def turn_ended(self, turn: MessageTurn) -> None:
        """Remember a turn that is over."""
        past = past_of(turn)
        self.ended += 1
        self._turns[past.facts.id] = past
        self._weight += past.weight
        while len(self._turns) > MOST_TURNS or (self._weight > _MOST_WEIGHT and len(self._turns) > 1):
            self._weight -= self._turns.pop(next(iter(self._turns))).weight
        self.minutes.add(past.outcome, past.tokens, past.seconds)
        failed = ""
        for stage, seconds, outcome in past.stages.outcomes():
            numbers = self.stages.get((past.profile, stage))
            if numbers is None:
                if len(self.stages) >= _MOST_STAGES:
                    continue
                numbers = self.stages[past.profile, stage] = StageNumbers()
            numbers.count += 1
            numbers.times.append(seconds)
            if outcome in FAILURES:
                numbers.failed += 1
                failed = stage
        if failed and past.error and (past.profile, failed) in self.stages:
            self.stages[past.profile, failed].errors.append(StageError(time.time(), past.error[:_ERROR], past.facts.id))

    def newest(self) -> Iterator[PastTurn]:
        """Yield the turns that are remembered, the one that ended last first."""
        return reversed(self._turns.values())

    def since(self, ended: int) -> list[PastTurn]:
        """Return the turns that ended when `ended` of them had, as far as they are remembered, the newest first."""
        number = min(self.ended - ended, len(self._turns))
        return [past for _, past in zip(range(number), self.newest(), strict=False)]

    def find(self, name: str) -> PastTurn | None:
        """Return a turn by its id, if it is remembered."""
        return self._turns.get(name)
