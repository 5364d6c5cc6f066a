"""The result of a turn, for either API to write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bub.streaming import StreamEvent
from bub_plugins.http.openai.errors import ApiError

STOP, LENGTH, CALLS, FILTERED = "stop", "length", "tool_calls", "content_filter"

_REASONS = {"length": LENGTH, "content_filter": FILTERED}


class Call(msgspec.Struct, frozen=True):
    """A call of a tool of the client's: `arguments` are JSON."""

    id: str
    name: str
    arguments: str


class Outcome(msgspec.Struct, frozen=True):
    """The answer of a turn: its text, the calls that go back to the client, why it ended, and the tokens it used."""

    text: str = ""
    calls: Sequence[Call] = ()
    reason: str = STOP
    sent: int = 0
    received: int = 0
    cached: int = 0


def outcome_of(text: str, end: StreamEvent, *, is_denied: bool) -> Outcome:
    """Say the result of a turn: of its replies and the last event of its answer.

    Of a turn that was denied, the text is the reason, and nothing else goes to the client. Raises `ApiError` if the
    agent refused what was asked.
    """
    data = end.data
    usage = _counts(data.get("usage"))
    if is_denied:
        return Outcome(text, (), FILTERED, *usage)
    if data.get("problem"):
        raise ApiError(400, str(data["problem"]))
    calls = tuple(
        Call(str(call["id"]), str(call["name"]), msgspec.json.encode(call["arguments"]).decode())
        for call in data.get("calls") or ()
    )
    reason = CALLS if calls else _REASONS.get(str(data.get("finish_reason")), STOP)
    return Outcome(text, calls, reason, *usage)


def _counts(usage: Any) -> tuple[int, int, int]:
    counted = usage if isinstance(usage, Mapping) else {}
    sent, received, cached = (int(counted.get(f"{name}_tokens") or 0) for name in ("input", "output", "cached"))
    return sent, received, cached
