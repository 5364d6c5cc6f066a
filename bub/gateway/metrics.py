"""The counts of a runtime as metrics of Prometheus; its library is imported with the first registry."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from bub import __version__
from bub.base.counts import Counts
from bub.telemetry.series import Series, read_series

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class Metrics:
    """The metrics of one runtime, in whatever format is asked for."""

    def __init__(self, counts: Counts) -> None:
        from prometheus_client import ProcessCollector
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
        from prometheus_client.exposition import choose_encoder
        from prometheus_client.registry import Collector, CollectorRegistry

        self._choose_encoder = choose_encoder
        started = time.time()

        def family_of(series: Series) -> Metric:
            if series.sort == "histogram":
                histogram = HistogramMetricFamily(series.name, series.meaning, labels=series.labels)
                for point in series.points:
                    buckets = [(_bound(bound), number) for bound, number in point.buckets]
                    histogram.add_metric(point.labels, buckets, point.number)
                return histogram
            make = CounterMetricFamily if series.sort == "counter" else GaugeMetricFamily
            family: CounterMetricFamily | GaugeMetricFamily = make(series.name, series.meaning, labels=series.labels)
            for point in series.points:
                family.add_metric(point.labels, point.number)
            return family

        class Current(Collector):
            """What the counts are at the moment of asking."""

            def collect(self) -> Iterable[Metric]:
                yield from map(family_of, read_series(counts))
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


def _bound(bound: float) -> str:
    return "+Inf" if bound == float("inf") else str(bound)
