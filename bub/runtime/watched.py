"""What can be seen of a turn while it runs and when it is over, by whoever watches."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import Token
from time import perf_counter
from typing import Any, Literal, TypeAlias

from bub.approval import Answer, Ask, Question
from bub.base.surfaces import Surface
from bub.base.tracing.activity import Activities, Activity, current_activity
from bub.base.waiting import one_at_a_time, split_cancelled
from bub.envelope import Envelope, field_of
from bub.runtime.result import TurnResult
from bub.runtime.sessions import TurnUnderWay
from bub.runtime.under_way import current_turn

Phase: TypeAlias = Literal["arriving", "waiting", "answering", "asking", "over"]
"""What a turn is at: it looks for its session, waits for that, runs its stages, waits for a person, or is over."""

Entered: TypeAlias = tuple[Token[TurnUnderWay | None], Token[Activity | Activities | None]]
"""What a task was a part of before it worked for a turn."""


class WatchedTurn(TurnUnderWay):
    """A turn as it is seen from outside.

    It began `at` a Unix time (`began` by `perf_counter`), is in a `phase`, and does `activities`. It had its session
    from `held_at` on, a Unix time, which is None until then. When it is over, `outcome` is "ok", "denied", "claimed",
    "failed", "cancelled" or "dropped" (nobody wanted its answer), and `result` its result. `error` is what it failed
    with, until those who watch have seen the end. `surface` is who handed its message over.
    """

    __slots__ = ("_asker", "activities", "at", "began", "error", "held_at", "outcome", "phase", "result", "surface")

    def __init__(
        self,
        message: Envelope,
        surface: Surface,
        ask: Ask | None,
        above: TurnUnderWay | None,
        *further: Any,
        find_stage: Callable[[], str],
    ) -> None:
        self._asker = one_at_a_time(ask) if ask is not None else None  # a person reads one question at a time
        super().__init__(above, field_of(message, "lifespan"), *further)
        self.surface = surface
        self.at, self.began = time.time(), perf_counter()
        self.held_at: float | None = None
        self.phase: Phase = "arriving"
        self.outcome = ""
        self.error: BaseException | None = None
        self.result: TurnResult | None = None
        self.activities = Activities(find_stage, str(field_of(message, "trace") or ""))

    @property
    def id(self) -> str:
        """What it is known by: 16 hexadecimal digits."""
        return self.activities.id

    @property
    def ask(self) -> Ask | None:
        """Puts a question to who sent the message; None if nobody can be asked."""
        return self._ask if self._asker is not None else None

    def end(self) -> None:
        """Note that it is over, and how it ended."""
        self.phase, self.outcome = "over", self._find_outcome()
        self.activities.find_stage = str  # no stage runs any more, and what would look for one names the turn

    def enter(self) -> Entered:
        """Be the turn under way of this task, until `leave`."""
        return current_turn.set(self), current_activity.set(self.activities)

    def _find_outcome(self) -> str:
        if self.error is not None:
            return "cancelled" if split_cancelled(self.error)[1] is None else "failed"
        if self.result is None:
            return "dropped"
        return str(self.result.ended_by or "ok").partition(":")[0]

    async def _ask(self, question: Question) -> bool | Answer:
        assert self._asker is not None
        self.phase = "asking"
        try:
            return await self._asker(question)
        finally:
            self.phase = "answering"


def leave(entered: Entered) -> None:
    """Be a part of what the task was a part of before it worked for a turn."""
    current_turn.reset(entered[0])
    current_activity.reset(entered[1])
