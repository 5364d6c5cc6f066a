"""What the counts of a runtime are called for whoever collects metrics, and their values at one moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from bub.base.counts import Counts, Times

Sort: TypeAlias = Literal["counter", "gauge", "histogram"]
"""What only grows, what there is now, and how long something took, time after time."""

_COUNTERS = (
    ("turns", "bub_turns", "Turns that are over.", ("profile", "outcome")),
    ("stages", "bub_stages", "Stages of turns that are over.", ("profile", "stage", "outcome")),
    ("models", "bub_model_requests", "Requests to models.", ("model", "outcome")),
    ("tokens", "bub_model_tokens", "Tokens that models counted.", ("model", "direction")),
    ("messages", "bub_messages_received", "Messages that came in and were kept.", ("channel",)),
    ("deliveries", "bub_deliveries", "Attempts to deliver a reply.", ("channel", "outcome")),
    ("failures", "bub_failures", "Failures that are in the log.", ("kind",)),
    ("schedules", "bub_schedule_moments", "Moments of schedules that are decided.", ("schedule", "outcome")),
    ("reloads", "bub_reloads", "Reloads of the pipeline file.", ("outcome",)),
)
"""Attribute of `Counts`, name, meaning and labels of what only grows."""

_HISTOGRAMS = (
    ("turn_times", "bub_turn_seconds", "How long turns took.", ("profile",)),
    ("stage_times", "bub_stage_seconds", "How long stages took.", ("profile", "stage")),
    ("model_times", "bub_model_seconds", "How long models took, from the request to the end.", ("model",)),
)

_GAUGES: Mapping[str, str] = {
    "running_turns": "Turns under way.",
    "inbox_messages": "Messages that wait for their turn, or whose turn is under way.",
    "outbox_messages": "Replies that have not arrived yet.",
    "oldest_message_seconds": "For how long the message has waited here that came first.",
    "owned_partitions": "Partitions of the shared store that this gateway works on.",
    "owned_channels": "Channels of the shared store that this gateway runs.",
    "store_away_seconds": "For how long the shared store could not be reached.",
}

_TOTALS: Mapping[str, str] = {
    "lease_renewals": "Leases that were renewed in the shared store.",
    "leases_lost": "Leases that were lost, as they could not be renewed in time.",
    "fenced_writes": "Writes that the shared store has refused, since their lease was over.",
    "telemetry_spans_sent": "Spans that the collector has taken.",
    "telemetry_spans_dropped": "Spans that nobody gets: the collector did not take them, or they came too fast.",
}


class Point(msgspec.Struct, frozen=True):
    """One value: its labels in the order of the series, and a number, or for times the counts up to each bound.

    `buckets` holds each bound, the last one is infinity, with how many times were not longer.
    """

    labels: tuple[str, ...]
    number: float
    buckets: tuple[tuple[float, int], ...] = ()


class Series(msgspec.Struct, frozen=True):
    """One metric at one moment. Of a histogram, the `number` of each point is the sum of its times in seconds."""

    name: str
    meaning: str
    sort: Sort
    labels: tuple[str, ...] = ()
    points: tuple[Point, ...] = ()


def read_series(counts: Counts) -> Iterator[Series]:
    """Read all series of a runtime as they are now; in the thread of the event loop."""
    for attribute, name, meaning, labels in _COUNTERS:
        numbers: Mapping[Any, int] = getattr(counts, attribute)
        yield Series(name, meaning, "counter", labels, tuple(Point(_tuple(of), one) for of, one in numbers.items()))
    for attribute, name, meaning, labels in _HISTOGRAMS:
        times: Mapping[Any, Times] = getattr(counts, attribute)
        points = tuple(Point(_tuple(of), one.sum, tuple(one.up_to())) for of, one in times.items())
        yield Series(name, meaning, "histogram", labels, points)
    for name, read in counts.totals.items():
        yield Series(f"bub_{name}", _TOTALS.get(name, name), "counter", (), (Point((), read()),))
    for name, read in counts.gauges.items():
        yield Series(f"bub_{name}", _GAUGES.get(name, name), "gauge", (), (Point((), read()),))


def _tuple(labels: Any) -> tuple[str, ...]:
    return (labels,) if isinstance(labels, str) else tuple(labels)
