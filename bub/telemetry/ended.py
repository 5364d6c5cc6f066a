"""A turn that is over, as it is handed to the thread that makes spans of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from bub.base.trace import TurnRecord
from bub.base.tracing.activity import Activity
from bub.envelope import content_of, field_of


class EndedTurn(msgspec.Struct, frozen=True):
    """What a turn was: how traces know it, when it ran, its result, and what it did.

    `at` is the Unix time at which it `began`; `began` and `ended` are counted by `perf_counter`. `stages` are the
    records of its stages, which count from `zero`, and `graph` is what it ran on. `parent_id` is the span
    that led here, "" if there is none; `is_remote` says whether that is of another process. If it is not
    `is_sampled`, only its numbers count. `asked` and `said` are the message and the replies, None unless content is
    wanted.
    """

    trace_id: str
    id: str
    parent_id: str
    is_remote: bool
    state: str
    is_sampled: bool
    at: float
    began: float
    ended: float
    profile: str
    session: str
    channel: str
    surface: str
    kind: str
    outcome: str
    error: str
    zero: float
    stages: Sequence[TurnRecord]
    graph: Any
    activities: tuple[Activity, ...]
    asked: Any = None
    said: tuple[str, ...] | None = None

    @property
    def weight(self) -> int:
        """How many spans it has at most."""
        return 1 + len(self.stages) + len(self.activities)


def error_of(error: BaseException | None) -> str:
    """The word for a failure: what a model or a tool calls it, else the name of its class; "" for none."""
    if error is None:
        return ""
    kind = getattr(error, "kind", None)
    return str(kind) if isinstance(kind, str) and kind else type(error).__name__


def message_of(turn: Any) -> tuple[str, str]:
    """The channel and the kind of the message of a turn."""
    message = turn.message
    return str(field_of(message, "channel") or ""), str(field_of(message, "kind") or "normal")


def replies_of(turn: Any) -> tuple[str, ...]:
    """Return what a turn answered with; nothing if it was ended before it could answer."""
    result = turn.result
    if result is None or turn.outcome != "ok":
        return ()
    return tuple(map(content_of, result.outbounds or ()))
