"""What the thread does with what it has taken: spans and metrics are made, and handed to the exporters."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, attach, set_value
from opentelemetry.sdk.trace import ReadableSpan

from bub.log import log_exception
from bub.telemetry.ended import EndedTurn
from bub.telemetry.exporting import Exporters, make_resource
from bub.telemetry.numbers import ModelNumbers, make_metrics
from bub.telemetry.series import Series
from bub.telemetry.settings import Destination
from bub.telemetry.spans import SpanMaker

REST = 0.0002
"""How long, in seconds, the thread sleeps between two turns, so that it keeps nobody from the interpreter for long."""


class Sending:
    """Makes and sends, in the one thread that has made this.

    `cover` takes secrets out of text. `sent` and `dropped` count spans.
    """

    def __init__(
        self, destination: Destination, cover: Callable[[str], str], instance: str, environ: Mapping[str, str]
    ) -> None:
        attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))  # a program that traces all requests leaves ours out
        self._exporters = Exporters(destination)
        self._resource = make_resource(instance, environ)
        self._maker = SpanMaker(self._resource, cover)
        self._models = ModelNumbers()
        self._began = time.time_ns()
        self._made: list[ReadableSpan] = []
        self.sent = self.dropped = 0

    @property
    def problem(self) -> str:
        """Why the last thing that was not sent was not."""
        return self._exporters.problem or "it did not answer in time"

    @property
    def takes_metrics(self) -> bool:
        """Whether metrics go anywhere."""
        return self._exporters.takes_metrics

    def take(self, turn: EndedTurn) -> int:
        """Make the spans of a turn and count what its models did; how many spans wait to be sent."""
        self._models.take(turn.activities)
        if self._exporters.takes_spans:
            try:
                self._made += self._maker.make(turn)
            except Exception as error:  # noqa: BLE001 (what a turn left behind may be anything; the others are sent)
                self.dropped += turn.weight
                log_exception("telemetry.span_failed", error)
            time.sleep(REST)
        return len(self._made)

    def send_spans(self) -> bool:
        """Send what was made; whether the collector has taken it. What it has not taken is dropped."""
        spans, self._made = self._made, []
        if not spans:
            return True
        is_sent = self._exporters.send_spans(spans)
        if is_sent:
            self.sent += len(spans)
        else:
            self.dropped += len(spans)
        return is_sent

    def send_metrics(self, series: Iterable[Series]) -> bool:
        """Send the metrics of one moment; whether the collector has taken them."""
        return self._exporters.send_metrics(
            make_metrics(self._resource, series, self._models, self._began, time.time_ns())
        )

    def give_up(self) -> None:
        """Try nothing again that has failed."""
        self._exporters.give_up()

    def close(self) -> None:
        """Close the connections."""
        self._exporters.close()
