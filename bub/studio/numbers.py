"""Numbers of stages and of minutes: counts, failures, and how long things took, each within a bound."""

from __future__ import annotations

import time
from array import array
from collections import Counter, deque
from collections.abc import Sequence
from random import random

import msgspec

_MOST_TIMES = 512
_LATEST_ERRORS = 5

FAILURES = frozenset({"failed", "timeout"})
"""The outcomes of a stage that count as a failure."""

MINUTE = 60
MOST_MINUTES = 360
"""How many minutes are kept: six hours."""


class StageError(msgspec.Struct, frozen=True):
    """When a stage failed, what it said, and in which turn."""

    at: float
    text: str
    turn: str


class StageNumbers:
    """How often one stage ran and failed, how long the last times took, and its last errors."""

    __slots__ = ("count", "errors", "failed", "times")

    def __init__(self) -> None:
        self.count = 0
        self.failed = 0
        self.times: deque[float] = deque(maxlen=_MOST_TIMES)
        self.errors: deque[StageError] = deque(maxlen=_LATEST_ERRORS)

    def summary(self) -> tuple[int, int, float | None, float | None, float | None]:
        """Return the count, the failures, and the 50th, 95th and 99th percentile of the last times in seconds."""
        ordered = sorted(self.times)
        p50, p95, p99 = (percentile(ordered, part) for part in (0.5, 0.95, 0.99))
        return self.count, self.failed, p50, p95, p99


class Minute:
    """What ended in one minute: turns by outcome, tokens, and how long a sample of the turns took."""

    __slots__ = ("_seen", "number", "times", "tokens", "turns")

    def __init__(self, number: int) -> None:
        self.number = number
        self.turns: Counter[str] = Counter()
        self.tokens = (0, 0)
        self.times = array("d")
        self._seen = 0

    def add(self, outcome: str, tokens: tuple[int, int], seconds: float) -> None:
        """Count a turn that is over."""
        self.turns[outcome] += 1
        self.tokens = (self.tokens[0] + tokens[0], self.tokens[1] + tokens[1])
        self._seen += 1
        if len(self.times) < _MOST_TIMES:
            self.times.append(seconds)
        elif (place := int(random() * self._seen)) < _MOST_TIMES:
            self.times[place] = seconds


class Minutes:
    """The last six hours, a minute at a time."""

    def __init__(self) -> None:
        self._minutes: deque[Minute] = deque(maxlen=MOST_MINUTES)

    def add(self, ended: float, outcome: str, tokens: tuple[int, int], seconds: float) -> None:
        """Count a turn that ended at a Unix time."""
        number = int(ended // MINUTE)
        if not self._minutes or self._minutes[-1].number < number:  # a clock that is set back counts for the last one
            self._minutes.append(Minute(number))
        self._minutes[-1].add(outcome, tokens, seconds)

    def describe(self) -> dict[str, object]:
        """Return a bucket for each minute since the first one that is kept, for the page."""
        now = int(time.time() // MINUTE)
        kept = {one.number: one for one in self._minutes if now - one.number < MOST_MINUTES}
        numbers = range(min(kept, default=now + 1), now + 1)
        outcomes = sorted({outcome for one in kept.values() for outcome in one.turns})
        nothing = Minute(0)
        each = [kept.get(number, nothing) for number in numbers]
        ordered = [sorted(one.times) for one in each]
        return {
            "step": MINUTE,
            "from": numbers.start * MINUTE,
            "turns": {outcome: [one.turns[outcome] for one in each] for outcome in outcomes},
            "tokens": {"input": [one.tokens[0] for one in each], "output": [one.tokens[1] for one in each]},
            "p50": [percentile(times, 0.5) for times in ordered],
            "p95": [percentile(times, 0.95) for times in ordered],
        }


def percentile(ordered: Sequence[float], part: float) -> float | None:
    """Return the value below which a part of others is, of values in order; None if there are none."""
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] if ordered else None
