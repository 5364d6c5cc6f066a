"""What a turn does inside its stages: requests to models, calls of tools, verdicts of gates; and how traces know it.

Nothing here is sent to anybody. Whoever watches turns reads it, while they run and when they are over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import Any, Literal, TypeAlias

import msgspec

from bub.base.tracing.context import TraceContext, TraceHeaders, read_trace
from bub.base.waiting import split_cancelled

MOST_KEPT = 2_000
"""How many activities of one turn are kept; what begins after that is not."""

Kind: TypeAlias = Literal["model", "tool", "server", "gate", "implementation"]
"""A request to a model, a call of a tool, a request to an MCP server, the verdict of a gate that an implementation
fired, an implementation of a hook that took long."""


class Activity(msgspec.Struct, eq=False, weakref=True):
    """Something that a turn does, from `began` to `ended`, which `perf_counter` counts; `ended` is None while it runs.

    `parent` is what it is a part of; None for the stage itself. `outcome` is "" while it runs, then `ok`, `failed`,
    `denied` or `cancelled`. `data` are small facts, such as tokens, and never what a person or a model said; `said` is
    that, and stays empty unless whoever collects traces wants it.
    """

    kind: Kind
    name: str
    began: float
    turn: Activities | None = None
    parent: Activity | None = None
    stage: str = ""
    ended: float | None = None
    outcome: str = ""
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    id: str = msgspec.field(default_factory=lambda: os.urandom(8).hex())
    """16 hexadecimal digits: how traces know it."""
    said: dict[str, Any] = {}

    def keep(self, **said: Any) -> None:
        """Keep what was said, by a word for who or what it is, if whoever collects traces wants that."""
        if self.turn is not None and self.turn.keeps_said:
            self.said = {**self.said, **said}

    def end(self, outcome: str = "ok", **data: Any) -> None:
        """Note how it ended; only the first time counts."""
        if self.ended is None:
            self.ended, self.outcome = perf_counter(), outcome
            self.data.update(data)


class Activities:
    """What one turn does, and how traces know the turn: the W3C Trace Context.

    `find_stage` tells the stage that the task which asks runs. `trace` is what the sender of the message said of its
    own trace, "" for nothing: its `traceparent`, and behind a blank its `tracestate`; what is none begins a trace.
    If somebody collects traces it `is_traced`: only then does anybody else get this one.
    """

    __slots__ = ("_context", "_id", "_trace", "all", "find_stage", "is_traced", "keeps_said")

    def __init__(self, find_stage: Callable[[], str] = str, trace: str = "") -> None:
        self.find_stage = find_stage
        self.all: list[Activity] = []
        self.is_traced = self.keeps_said = False
        self._trace = trace
        self._id = ""
        self._context: TraceContext | None = None

    @property
    def id(self) -> str:
        """16 hexadecimal digits: how traces know the turn; made at first need, since few turns are watched."""
        if not self._id:
            self._id = os.urandom(8).hex()
        return self._id

    @property
    def context(self) -> TraceContext:
        """The trace that the turn is a part of."""
        if self._context is None:
            self._context = read_trace(self._trace) or TraceContext(os.urandom(16).hex())
        return self._context

    def collect(self, context: TraceContext, *, keeps_said: bool) -> None:
        """Note that somebody collects this trace, as a part of a context, and whether with what is said."""
        self.is_traced, self.keeps_said, self._context = True, keeps_said, context

    def begin(self, kind: Kind, name: str, parent: Activity | None = None, **data: Any) -> Activity:
        """Note that something begins."""
        activity = Activity(kind, name, perf_counter(), self, parent, self.find_stage(), data=data)
        if len(self.all) < MOST_KEPT:
            self.all.append(activity)
        return activity


current_activity: ContextVar[Activity | Activities | None] = ContextVar("bub_activity", default=None)
"""What the task which asks is a part of: an activity, else its turn; None outside of all turns."""


def begin(kind: Kind, name: str, **data: Any) -> Activity:
    """Note that something begins in the turn under way, for the caller to `end`; outside of a turn nobody keeps it."""
    above = current_activity.get()
    if isinstance(above, Activities):
        return above.begin(kind, name, **data)
    if above is not None and above.turn is not None:
        return above.turn.begin(kind, name, above, **data)
    return Activity(kind, name, perf_counter(), data=data)


@contextmanager
def doing(kind: Kind, name: str, **data: Any) -> Iterator[Activity]:
    """Note what the block does; what begins in it is a part of that. It ends with the block, unless it was before."""
    activity = begin(kind, name, **data)
    token = current_activity.set(activity)
    try:
        yield activity
    except BaseException as error:
        _, failure = split_cancelled(error)
        activity.end("cancelled") if failure is None else activity.end("failed", error=type(failure).__name__)
        raise
    finally:
        current_activity.reset(token)
        activity.end()


def trace_headers() -> dict[str, str]:
    """Write what goes beside other headers, or into MCP's `_meta`; nothing if nobody collects traces."""
    written = write_trace()
    return {name: value for name, value in written._asdict().items() if value} if written is not None else {}


def write_trace(of: Activity | None = None) -> TraceHeaders | None:
    """Write the headers for a request that goes out now, as a part `of` something; None if nobody collects traces."""
    above = of if of is not None else current_activity.get()
    turn = above.turn if isinstance(above, Activity) else above
    if above is None or turn is None or not turn.is_traced:
        return None
    context = turn.context
    return TraceHeaders(f"00-{context.trace_id}-{above.id}-{context.flags & 1:02x}", context.state)
