"""Words at which an answer ends: what follows them is never sent.

The model does not learn of them, since not every API of models has such words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from bub_plugins.http.openai.errors import refuse
from bub_plugins.http.openai.outcome import CALLS, STOP, Outcome

_MOST, _LONGEST = 4, 256


def read_stops(said: Mapping[str, Any]) -> tuple[str, ...]:
    """Read `stop`: a text, or up to four. Raises `ApiError`."""
    stop = said.get("stop")
    stops = [stop] if isinstance(stop, str) else stop if stop is not None else []
    if not isinstance(stops, list) or len(stops) > _MOST:
        refuse(f"`stop` has to be a text, or a list of up to {_MOST}.", "stop")
    if not all(isinstance(one, str) and 0 < len(one) <= _LONGEST for one in stops):
        refuse(f"Each `stop` has to be a text of 1 to {_LONGEST} characters.", "stop")
    return tuple(stops)


class Stopping:
    """Passes on an answer up to the first of some words; what may be their beginning waits for what follows."""

    def __init__(self, stops: Sequence[str], tell: Callable[[str], None]) -> None:
        self._stops = stops
        self._tell = tell
        self._waiting = ""
        self._is_over = False

    def take(self, delta: str) -> None:
        """Take a piece of the answer."""
        if self._is_over:
            return
        text = self._waiting + delta
        end = _find(text, self._stops)
        if end is not None:
            self._is_over, self._waiting = True, ""
            self._tell(text[:end])
            return
        most = max(map(len, self._stops), default=1) - 1
        sizes = range(min(most, len(text)), 0, -1)
        keep = next((size for size in sizes if any(stop.startswith(text[-size:]) for stop in self._stops)), 0)
        self._waiting = text[len(text) - keep :]
        self._tell(text[: len(text) - keep])

    def cut(self, outcome: Outcome) -> Outcome:
        """Return an answer up to the words, if it has them; calls behind them do not go to the client."""
        end = _find(outcome.text, self._stops)
        if end is None:
            return outcome
        reason = STOP if outcome.reason == CALLS else outcome.reason
        return replace(outcome, text=outcome.text[:end], calls=(), reason=reason)


def _find(text: str, stops: Sequence[str]) -> int | None:
    """The beginning of the words that are complete first, as a model would stop there; None if there are none."""
    found = [(at + len(stop), at) for stop in stops if (at := text.find(stop)) >= 0]
    return min(found)[1] if found else None
