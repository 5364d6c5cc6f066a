"""The counts of a runtime as metrics of Prometheus; its library is imported with the first registry."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bub import __version__
from bub.base.counts import Counts, Times

if TYPE_CHECKING:
    from prometheus_client.core import Metric

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
}


class Metrics:
    """The metrics of one runtime, in whatever format is asked for."""

    def __init__(self, counts: Counts) -> None:
        from prometheus_client import ProcessCollector
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
        from prometheus_client.exposition import choose_encoder
        from prometheus_client.registry import Collector, CollectorRegistry

        self._choose_encoder = choose_encoder
        started = time.time()

        class Current(Collector):
            """What the counts are at the moment of asking."""

            def collect(self) -> Iterable[Metric]:
                for attribute, name, meaning, labels in _COUNTERS:
                    counter = CounterMetricFamily(name, meaning, labels=labels)
                    for of, number in getattr(counts, attribute).items():
                        counter.add_metric(_values(of), number)
                    yield counter
                for attribute, name, meaning, labels in _HISTOGRAMS:
                    histogram = HistogramMetricFamily(name, meaning, labels=labels)
                    for of, times in getattr(counts, attribute).items():
                        histogram.add_metric(_values(of), list(_buckets(times)), times.sum)
                    yield histogram
                for name, read in counts.totals.items():
                    yield CounterMetricFamily(f"bub_{name}", _TOTALS.get(name, name), read())
                for name, read in counts.gauges.items():
                    yield GaugeMetricFamily(f"bub_{name}", _GAUGES.get(name, name), read())
                yield GaugeMetricFamily("bub_start_time_seconds", "When this began, in seconds since 1970.", started)
                info = GaugeMetricFamily("bub_build_info", "Which Bub this is; always 1.", labels=("version",))
                info.add_metric([__version__], 1)
                yield info

        self._registry = CollectorRegistry()
        self._registry.register(Current())
        ProcessCollector(registry=self._registry)

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """Return the metrics as they are now, and their media type, in a format that an `Accept` header names."""
        try:
            encode, media_type = self._choose_encoder(accept)
        except (TypeError, ValueError):  # it names a version that is none
            encode, media_type = self._choose_encoder("")
        return encode(self._registry), media_type


def _values(labels: Any) -> tuple[str, ...]:
    return (labels,) if isinstance(labels, str) else labels


def _buckets(times: Times) -> Iterator[tuple[str, float]]:
    for bound, number in times.up_to():
        yield "+Inf" if bound == float("inf") else str(bound), number
