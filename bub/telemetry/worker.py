"""The thread that sends: turns hand over what they left behind and go on, whatever the collector does."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any, TypeAlias

from bub.log import log_exception, log_info, log_warning
from bub.telemetry import late
from bub.telemetry.ended import EndedTurn
from bub.telemetry.series import Series
from bub.telemetry.settings import Destination

MOST_WAITING = 20_000
"""How many spans wait for the collector at most; what comes when so many wait is dropped."""

MOST_AT_ONCE = 512
DELAY = 1.0
INTERVAL = 60.0
"""How many spans are sent at once, and how many seconds lie between two times that spans, and metrics, are sent."""

_PATIENCE = 5.0

Ask: TypeAlias = Callable[[Callable[[], None]], None]
"""Has something done in the thread of the event loop, soon."""

Read: TypeAlias = Callable[[], list[Series]]
"""Reads the metrics as they are now, in the thread of the event loop."""


class Worker:
    """Sends what it is given from a thread of its own, which ends with the process at the latest.

    `cover` takes secrets out of text, `ask` and `read` get at the metrics. The variables of `environ` say how much is
    sent how often.
    """

    def __init__(
        self,
        destination: Destination,
        cover: Callable[[str], str],
        instance: str,
        environ: Mapping[str, str],
        *,
        ask: Ask,
        read: Read,
    ) -> None:
        self._destination = destination
        self._make: Callable[[], Any] = lambda: late.Sending(destination, cover, instance, environ)
        self._ask, self._read = ask, read
        self._waiting: deque[EndedTurn] = deque()
        self._taken = self._done = self._turned_away = 0  # spans; each is counted by one thread only
        self._wake = threading.Event()
        self._last: list[Series] | None = None
        self._is_over = self._is_too_much = False
        self._away: set[str] = set()
        self._sending: Any = None
        self._most = _read_number(environ, "OTEL_BSP_MAX_QUEUE_SIZE", MOST_WAITING)
        self._at_once = _read_number(environ, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", MOST_AT_ONCE)
        self._delay = _read_number(environ, "OTEL_BSP_SCHEDULE_DELAY", int(DELAY * 1000)) / 1000
        self._interval = _read_number(environ, "OTEL_METRIC_EXPORT_INTERVAL", int(INTERVAL * 1000)) / 1000
        self._thread = threading.Thread(target=self._run, name="bub telemetry", daemon=True)

    # In the thread of the event loop.

    @property
    def sent(self) -> int:
        """How many spans the collector has taken."""
        return self._sending.sent if self._sending is not None else 0

    @property
    def dropped(self) -> int:
        """How many spans nobody gets."""
        return self._turned_away + (self._sending.dropped if self._sending is not None else 0)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def take(self, turn: EndedTurn) -> None:
        """Take what a turn left behind, or drop it if too much waits; this never waits."""
        weight, waiting = turn.weight, self._taken - self._done
        if waiting + weight > self._most:
            self._turned_away += weight
            if not self._is_too_much:
                self._is_too_much = True
                log_warning("telemetry.too_much", waiting=waiting, collector=self._destination.host)
            return
        self._taken += weight
        self._waiting.append(turn)
        if waiting + weight > self._at_once:
            self._wake.set()

    def finish(self, last: list[Series]) -> None:
        """Say that nothing more comes, and what the metrics are at the end."""
        self._last, self._is_over = last, True
        self._wake.set()

    def join(self, seconds: float) -> bool:
        """Wait until all is sent, at most so many seconds, and then give up; whether all was sent."""
        self._thread.join(seconds)
        if not self._thread.is_alive():
            return True
        log_warning("telemetry.given_up", spans=self._taken - self._done, collector=self._destination.host)
        with suppress(Exception):
            if self._sending is not None:
                self._sending.give_up()
        return False

    # In its own thread.

    def _run(self) -> None:
        try:
            self._sending = self._make()
        except Exception as error:  # noqa: BLE001 (whatever is wrong with the packages, turns go on)
            log_exception("telemetry.failed", error)
            self._most = 0  # nothing more is taken
            self._waiting.clear()
            return
        try:
            self._send_until_over(self._sending)
        except Exception as error:  # noqa: BLE001 (as above)
            log_exception("telemetry.failed", error)
            self._most = 0
            self._waiting.clear()
        finally:
            with suppress(Exception):
                self._sending.close()

    def _send_until_over(self, sending: Any) -> None:
        due = monotonic() + self._interval
        while not self._is_over:
            self._wake.wait(self._delay)
            self._wake.clear()
            self._send_turns(sending)
            if monotonic() >= due and not self._is_over and sending.takes_metrics:
                due = monotonic() + self._interval
                series = self._read_in_loop()
                if series is not None:
                    self._note("metrics", sending.send_metrics(series))
        self._send_turns(sending)
        if sending.takes_metrics and self._last is not None and "spans" not in self._away:
            self._note("metrics", sending.send_metrics(self._last))

    def _send_turns(self, sending: Any) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            ready = sending.take(turn)
            if ready >= self._at_once or not self._waiting:
                self._note("spans", sending.send_spans())
            self._done += turn.weight
        if self._is_too_much:
            self._is_too_much = False
            log_warning("telemetry.dropped", spans=self.dropped, collector=self._destination.host)

    def _note(self, what: str, is_sent: bool) -> None:
        """Log that the collector does not take spans, or metrics, once, and that it does again."""
        collector = self._destination.host
        if is_sent and what in self._away:
            self._away.remove(what)
            log_info("telemetry.sent_again", what=what, dropped=self.dropped, collector=collector)
        elif not is_sent and what not in self._away:
            self._away.add(what)
            log_warning("telemetry.not_sent", what=what, why=self._sending.problem, collector=collector)

    def _read_in_loop(self) -> list[Series] | None:
        """Read the metrics where they are written; None if the event loop is over, or does not get to it."""
        answer: queue.SimpleQueue[list[Series]] = queue.SimpleQueue()
        try:
            self._ask(lambda: answer.put(self._read()))
            return answer.get(timeout=_PATIENCE)
        except (RuntimeError, queue.Empty):
            return None


def _read_number(environ: Mapping[str, str], name: str, usual: int) -> int:
    """A variable that is a number above zero; what is none counts as not set."""
    said = environ.get(name, "").strip()
    if said.isdecimal() and int(said) > 0:
        return int(said)
    if said:
        log_warning("telemetry.no_number", variable=name)
    return usual
