"""The metrics of a runtime as OpenTelemetry has them: those that Prometheus gets, and two of GenAI about models."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import msgspec
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from bub import __version__
from bub.base.tracing.activity import Activity
from bub.telemetry import names
from bub.telemetry.facts import plain_facts
from bub.telemetry.series import Point, Series

_CUMULATIVE = AggregationTemporality.CUMULATIVE
_LABELS = (names.OPERATION, names.PROVIDER, names.REQUEST_MODEL, names.SERVER_ADDRESS, names.SERVER_PORT)

_UNKNOWN: Any = None
"""The least and the most of what was counted, which nobody has noted: so they are not sent."""

Key: TypeAlias = tuple[tuple[str, str | int], ...]


class _Tally(msgspec.Struct):
    """How often something had which size: `within` counts up to each bound, and beyond the last one."""

    bounds: Sequence[float]
    within: list[int]
    sum: float = 0.0

    def add(self, size: float) -> None:
        self.sum += size
        self.within[bisect_left(self.bounds, size)] += 1


class ModelNumbers:
    """How long requests to models took, and what they cost; from the activities of turns that are over."""

    def __init__(self) -> None:
        self._durations: dict[Key, _Tally] = {}
        self._tokens: dict[Key, _Tally] = {}

    def take(self, activities: Iterable[Activity]) -> None:
        """Count the requests among the activities of a turn; tokens only if the provider has counted them."""
        for one in activities:
            if one.kind != "model" or one.ended is None:
                continue
            facts = plain_facts(one)
            key: Key = tuple((name, facts[name]) for name in _LABELS if facts.get(name) not in (None, ""))
            failed: Key = ((names.ERROR_TYPE, facts[names.ERROR_TYPE]),) if names.ERROR_TYPE in facts else ()
            _find(self._durations, (*key, *failed), names.DURATION_BOUNDS).add(one.ended - one.began)
            for direction in ("input", "output"):
                tokens = one.data.get(direction)
                if tokens:
                    typed: Key = (*key, (names.TOKEN_TYPE, direction))
                    _find(self._tokens, typed, names.TOKEN_BOUNDS).add(tokens)

    def metrics(self, began: int, now: int) -> Iterator[Metric]:
        """Make the two metrics, from their `began` to `now`, both in nanoseconds since 1970."""
        yield _histogram(names.OPERATION_DURATION, "GenAI operation duration.", "s", self._durations, began, now)
        yield _histogram(
            names.TOKEN_USAGE, "Number of input and output tokens used.", "{token}", self._tokens, began, now
        )


def _find(tallies: dict[Key, _Tally], key: Key, bounds: Sequence[float]) -> _Tally:
    if key not in tallies:
        tallies[key] = _Tally(bounds, [0] * (len(bounds) + 1))
    return tallies[key]


def _histogram(name: str, meaning: str, unit: str, tallies: dict[Key, _Tally], began: int, now: int) -> Metric:
    points = [
        HistogramDataPoint(
            dict(key), began, now, sum(one.within), one.sum, list(one.within), one.bounds, _UNKNOWN, _UNKNOWN
        )
        for key, one in tallies.items()
    ]
    return Metric(name, meaning, unit, Histogram(points, _CUMULATIVE))


def make_metrics(
    resource: Resource, series: Iterable[Series], models: ModelNumbers, began: int, now: int
) -> MetricsData:
    """Make what is sent of all metrics, counted from `began` to `now`, both in nanoseconds since 1970."""
    made = [_metric_of(one, began, now) for one in series if one.points]
    made += [metric for metric in models.metrics(began, now) if metric.data.data_points]
    scope = ScopeMetrics(InstrumentationScope("bub", __version__), made, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _metric_of(series: Series, began: int, now: int) -> Metric:
    if series.sort == "histogram":
        points = [_times(series, one, began, now) for one in series.points]
        return Metric(series.name, series.meaning, "s", Histogram(points, _CUMULATIVE))
    numbers = [NumberDataPoint(_labels(series, one), began, now, one.number) for one in series.points]
    if series.sort == "gauge":
        unit = "s" if series.name.endswith("_seconds") else "1"
        return Metric(series.name, series.meaning, unit, Gauge(numbers))
    return Metric(series.name, series.meaning, "1", Sum(numbers, _CUMULATIVE, is_monotonic=True))


def _times(series: Series, point: Point, began: int, now: int) -> HistogramDataPoint:
    bounds = [bound for bound, _ in point.buckets][:-1]
    up_to = [0, *(number for _, number in point.buckets)]
    within = [above - below for below, above in pairwise(up_to)]
    labels = _labels(series, point)
    return HistogramDataPoint(labels, began, now, up_to[-1], point.number, within, bounds, _UNKNOWN, _UNKNOWN)


def _labels(series: Series, point: Point) -> dict[str, str]:
    return dict(zip(series.labels, point.labels, strict=True))
