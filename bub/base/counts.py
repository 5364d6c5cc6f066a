"""What was done and how it went, in plain numbers, for whoever watches a runtime."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TypeAlias

from bub.base.trace import TurnRecord

BOUNDS = (0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""The seconds up to which times are distinguished: from a stage that computes to an answer with many tools."""

Gauge: TypeAlias = Callable[[], float]
"""Says how much there is of something now."""


class Times:
    """How long something took, time after time: the `sum` of seconds, and how many were within each of `BOUNDS`."""

    __slots__ = ("_within", "sum")

    def __init__(self) -> None:
        self.sum = 0.0
        self._within = [0] * (len(BOUNDS) + 1)

    def add(self, seconds: float) -> None:
        """Count one time."""
        self.sum += seconds
        self._within[bisect_left(BOUNDS, seconds)] += 1

    @property
    def count(self) -> int:
        """How many times were counted."""
        return sum(self._within)

    def up_to(self) -> Iterator[tuple[float, int]]:
        """Each bound with how many times were not longer; the last bound is infinity."""
        return zip((*BOUNDS, float("inf")), accumulate(self._within), strict=True)


class Counts:
    """The numbers of one runtime, from its start on. They only grow, except what a gauge says.

    For one thread: that of the event loop.
    """

    def __init__(self) -> None:
        self.turns: Counter[tuple[str, str]] = Counter()
        """By profile and outcome."""
        self.turn_times: defaultdict[str, Times] = defaultdict(Times)
        """By profile."""
        self.stage_times: defaultdict[tuple[str, str], Times] = defaultdict(Times)
        """By profile and stage."""
        self.stages: Counter[tuple[str, str, str]] = Counter()
        """By profile, stage and outcome."""
        self.model_times: defaultdict[str, Times] = defaultdict(Times)
        """By model, from the request to the end of the answer."""
        self.models: Counter[tuple[str, str]] = Counter()
        """Requests by model and outcome."""
        self.tokens: Counter[tuple[str, str]] = Counter()
        """By model and direction, `input` or `output`."""
        self.messages: Counter[str] = Counter()
        """Received ones, by channel."""
        self.deliveries: Counter[tuple[str, str]] = Counter()
        """Attempts to deliver a reply, by channel and outcome."""
        self.failures: Counter[str] = Counter()
        """By kind."""
        self.reloads: Counter[str] = Counter()
        """By outcome, `ok` or `refused`."""
        self.schedules: Counter[tuple[str, str]] = Counter()
        """Moments of schedules, by schedule and outcome: `fired`, `missed`, or `taken` by another process."""
        self.gauges: dict[str, Gauge] = {}
        self.totals: dict[str, Gauge] = {}
        """What others count; these only grow."""

    def turn(self, profile: str, outcome: str, trace: Sequence[TurnRecord], seconds: float) -> None:
        """Count a turn that is over: how it ended in one word (`ok`, `denied`, `claimed`, `failed`, `cancelled`)."""
        self.turns[profile, outcome] += 1
        self.turn_times[profile].add(seconds)
        for record in trace:
            self.stages[profile, record.stage, record.outcome] += 1
            self.stage_times[profile, record.stage].add(record.duration)

    def model(self, name: str, outcome: str, seconds: float, *, sent: int = 0, received: int = 0) -> None:
        """Count a request to a model: `ok`, `failed` or `cancelled`; the tokens that were `sent` and `received`."""
        self.models[name, outcome] += 1
        self.model_times[name].add(seconds)
        self.tokens[name, "input"] += sent
        self.tokens[name, "output"] += received

    def count_received(self, channel: str) -> None:
        """Count a message that came in and is kept."""
        self.messages[channel] += 1

    def delivery(self, channel: str, outcome: str) -> None:
        """Count an attempt to deliver a reply: `sent`, `again` (it will be tried again) or `given_up`."""
        self.deliveries[channel, outcome] += 1

    def failure(self, kind: str) -> None:
        """Count something that failed and was logged: a word such as `turn`, `channel` or `delivery`."""
        self.failures[kind] += 1

    def reload(self, outcome: str) -> None:
        """Count a reload of the pipeline file: `ok` or `refused`."""
        self.reloads[outcome] += 1

    def schedule(self, name: str, outcome: str, times: int = 1) -> None:
        """Count moments of a schedule: `fired`, `missed` or `taken`."""
        self.schedules[name, outcome] += times

    def gauge(self, name: str, read: Gauge) -> None:
        """Let `read` say how much there is of `name` now: `running_turns`, `inbox_messages`, `outbox_messages`."""
        self.gauges[name] = read

    def total(self, name: str, read: Gauge) -> None:
        """Have `read` asked for something that only grows, whenever somebody looks."""
        self.totals[name] = read
