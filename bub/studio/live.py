"""What runs now, looked at for all browsers together and not more often than they can see it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from time import perf_counter
from typing import TypeAlias

import msgspec

from bub.runtime.message_turn import MessageTurn

_AT_MOST_EVERY = 0.2
"""How old, in seconds, what was seen may be."""

Look: TypeAlias = tuple[str, tuple[str, ...], int, int]
"""What tells one state of a turn from another: its phase, its stages, how many have ended, and its activities."""


class Sample(msgspec.Struct, frozen=True):
    """All turns under way as they were at one moment, by their ids; and how many are in each stage of each profile.

    `asking` are those that wait for a person.
    """

    looks: Mapping[str, Look]
    turns: Mapping[str, MessageTurn]
    running: Mapping[str, Mapping[str, int]]
    asking: frozenset[str] = frozenset()


class Live:
    """Looks at the turns that `turns` gives."""

    def __init__(self, turns: Callable[[], Collection[MessageTurn]]) -> None:
        self._turns = turns
        self._sample = Sample({}, {}, {})
        self._taken = -_AT_MOST_EVERY

    def look(self) -> Sample:
        """Return what runs now, or ran a moment ago."""
        now = perf_counter()
        if now - self._taken >= _AT_MOST_EVERY:
            self._sample, self._taken = self._take(), now
        return self._sample

    def forget(self) -> None:
        """Keep nothing of what was seen: nobody looks any more."""
        self._sample, self._taken = Sample({}, {}, {}), -_AT_MOST_EVERY

    def _take(self) -> Sample:
        looks: dict[str, Look] = {}
        turns: dict[str, MessageTurn] = {}
        running: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for turn in self._turns():
            name, stages = turn.id, tuple(turn.stages_now)
            turns[name] = turn
            looks[name] = (turn.phase, stages, len(turn.trace), len(turn.activities.all))
            for stage in stages:
                running[turn.profile.name][stage] += 1
        return Sample(looks, turns, running, frozenset(name for name, look in looks.items() if look[0] == "asking"))
