"""What is remembered of turns for the page: the last ones, numbers of stages, minutes. Nothing grows without end.

A turn's end costs some microseconds. Some dozens of turns are counted at once, or when a browser asks; whatever else
there is to compute, a browser that asks has computed for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bub.runtime.message_turn import MessageTurn
from bub.studio.numbers import FAILURES, Minutes, StageError, StageNumbers
from bub.studio.rows import PastTurn, past_of

MOST_TURNS = 1_000
_MOST_WEIGHT = 40_000
"""How many turns are remembered, and how many stages and activities of all of them that are counted."""

_MOST_STAGES = 5_000
_ERROR = 1_000

_TOGETHER = 64
"""How many turns that are over are counted at once; for each alone, the cache would have to be filled again."""


class Recorder:
    """Watches the turns of a runtime (`RuntimeView.watch`)."""

    def __init__(self) -> None:
        self.ended = 0
        """How many turns are over."""
        self._new: list[PastTurn] = []
        self._turns: dict[str, PastTurn] = {}
        self._weight = 0
        self._stages: dict[tuple[str, str], StageNumbers] = {}
        self._minutes = Minutes()

    def __len__(self) -> int:
        self._count()
        return len(self._turns)

    @property
    def stages(self) -> Mapping[tuple[str, str], StageNumbers]:
        """The numbers of each stage, by its profile and its id."""
        self._count()
        return self._stages

    @property
    def minutes(self) -> Minutes:
        """What ended in each minute."""
        self._count()
        return self._minutes

    def turn_began(self, turn: MessageTurn) -> None:
        """Leave it alone: whoever wants to know looks at the turns under way."""

    def turn_ended(self, turn: MessageTurn) -> None:
        """Remember a turn that is over."""
        self._new.append(past_of(turn))
        self.ended += 1
        if len(self._new) >= _TOGETHER:
            self._count()

    def _count(self) -> None:
        """Count the turns that have ended since this was done last."""
        new, self._new = self._new, []
        for past in new:
            self._turns[past.facts.id] = past
            self._weight += past.weight
            self._minutes.add(past.ended, past.outcome, past.tokens, past.seconds)
            self._count_stages(past)
        while len(self._turns) > MOST_TURNS or (self._weight > _MOST_WEIGHT and len(self._turns) > 1):
            self._weight -= self._turns.pop(next(iter(self._turns))).weight

    def _count_stages(self, past: PastTurn) -> None:
        failed = None
        for stage, seconds, outcome in past.stages.outcomes():
            numbers = self._stages.get((past.profile, stage))
            if numbers is None:
                if len(self._stages) >= _MOST_STAGES:
                    continue
                numbers = self._stages[past.profile, stage] = StageNumbers()
            numbers.count += 1
            numbers.times.append(seconds)
            if outcome in FAILURES:
                numbers.failed += 1
                failed = numbers
        if failed is not None and past.error:
            failed.errors.append(StageError(past.ended, past.error[:_ERROR], past.facts.id))

    def newest(self) -> Iterator[PastTurn]:
        """Yield the turns that are remembered, the one that ended last first."""
        self._count()
        return reversed(self._turns.values())

    def since(self, ended: int) -> list[PastTurn]:
        """Return the turns that ended when `ended` of them had, as far as they are remembered, the newest first."""
        number = min(self.ended - ended, len(self))
        return [past for _, past in zip(range(number), self.newest(), strict=False)]

    def find(self, name: str) -> PastTurn | None:
        """Return a turn by its id, if it is remembered."""
        self._count()
        return self._turns.get(name)
