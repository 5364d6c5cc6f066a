"""Sending to a collector, over OTLP: the exporters of OpenTelemetry, and what becomes of their own words."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from bub import __version__
from bub.telemetry.settings import Destination

LOGGERS = ("opentelemetry", "urllib3", "requests")
"""Whose warnings would be on the terminal while a collector is away."""

NAME, VERSION = "service.name", "service.version"


class Exporters:
    """Sends spans and metrics; what cannot be sent in the time that the environment allows, 10 s, is given up.

    `problem` is what the exporter said last of why it failed, without an address.
    """

    def __init__(self, destination: Destination) -> None:
        headers = dict(destination.headers) or None
        self._words = _Words()
        for name in LOGGERS:
            logger = logging.getLogger(name)
            logger.addHandler(self._words)
            logger.propagate = False
        self._spans = OTLPSpanExporter(destination.traces, headers=headers) if destination.traces else None
        self._metrics = OTLPMetricExporter(destination.metrics, headers=headers) if destination.metrics else None

    @property
    def problem(self) -> str:
        return self._words.last

    @property
    def takes_spans(self) -> bool:
        return self._spans is not None

    @property
    def takes_metrics(self) -> bool:
        return self._metrics is not None

    def send_spans(self, spans: Sequence[ReadableSpan]) -> bool:
        """Send spans; whether the collector has taken them."""
        return self._spans is not None and self._spans.export(spans) is SpanExportResult.SUCCESS

    def send_metrics(self, metrics: MetricsData) -> bool:
        """Send metrics; whether the collector has taken them."""
        return self._metrics is not None and self._metrics.export(metrics) is MetricExportResult.SUCCESS

    def give_up(self) -> None:
        """Try nothing again that has failed; what is on its way ends by itself."""
        exporters = (self._spans, self._metrics)
        self._spans = self._metrics = None
        for exporter in exporters:
            if exporter is not None:
                exporter.shutdown()

    def close(self) -> None:
        """Close the connections, and let others hear the loggers again; in the thread that has sent."""
        self.give_up()
        for name in LOGGERS:
            logging.getLogger(name).removeHandler(self._words)


def make_resource(instance: str, environ: Mapping[str, str]) -> Resource:
    """Say which process this is: `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` go before Bub's own words."""
    told = Resource.create({}).attributes
    own: dict[str, Any] = {VERSION: __version__, "service.instance.id": instance}
    if not environ.get("OTEL_SERVICE_NAME") and NAME not in environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        own[NAME] = "bub"
    return Resource({**told, **{name: value for name, value in own.items() if name == NAME or name not in told}})


class _Words(logging.Handler):
    """Hears what the exporters say, which nobody else does: their words may hold an address with a key in it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            told = [_name(one) for one in record.args or ()] if isinstance(record.args, tuple) else []
        except Exception:  # noqa: BLE001 (whatever a library did wrong in saying it)
            told = []
        self.last = ", ".join(filter(None, told))[:200] or self.last


def _name(value: object) -> str:
    """A cause in words: the class of the innermost exception; a number or a word of the answer as it is."""
    if isinstance(value, BaseException):
        inner = (
            value.__cause__
            or value.__context__
            or next((one for one in value.args if isinstance(one, Exception)), None)
        )
        return _name(inner) if inner is not None else type(value).__name__
    return str(value) if isinstance(value, int | str) and str(value) not in ("spans", "metrics") else ""
