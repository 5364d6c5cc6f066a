"""The watcher: says as a turn begins which trace it is a part of, and hands it over when it is over."""

from __future__ import annotations

import os
from time import perf_counter
from typing import Any

from bub.base.tracing.activity import Activities, Activity, current_activity
from bub.base.tracing.context import TraceContext
from bub.envelope import content_of
from bub.telemetry.ended import EndedTurn, error_of, message_of, replies_of
from bub.telemetry.sampling import Sampler
from bub.telemetry.worker import Worker


class TelemetryWatcher:
    """Watches turns for a worker; with `content`, what is said in them is kept until it is sent.

    What it does for a turn takes microseconds, in the thread of the event loop.
    """

    def __init__(self, worker: Worker, sampler: Sampler, *, content: bool) -> None:
        self._worker, self._sampler, self._content = worker, sampler, content

    def turn_began(self, turn: Any) -> None:
        """Say which trace a turn is a part of: that of the turn that started it, of its sender, or a new one."""
        activities: Activities = turn.activities
        context = _context_above(turn) or activities.context
        begins_here = not context.parent_id
        takes = self._sampler.takes(context.trace_id, None if begins_here else context.flags)
        known = TraceContext(context.trace_id, context.parent_id, int(takes), context.state)
        activities.collect(known, keeps_said=self._content and takes)

    def turn_ended(self, turn: Any) -> None:
        """Hand over what a turn leaves behind."""
        activities: Activities = turn.activities
        if not activities.is_traced:  # it began before anybody watched
            return
        context = activities.context
        channel, kind = message_of(turn)
        trace = turn.trace
        says = activities.keeps_said
        self._worker.take(
            EndedTurn(
                context.trace_id,
                activities.id,
                context.parent_id,
                turn.above is None,
                context.state,
                bool(context.flags & 1),
                turn.at,
                turn.began,
                perf_counter(),
                turn.profile.name,
                turn.session_id,
                channel,
                turn.surface.value,
                kind,
                turn.outcome,
                error_of(turn.error) if turn.outcome == "failed" else "",
                trace.began,
                trace,
                turn.profile.graph,
                tuple(activities.all),
                content_of(turn.message) if says else None,
                replies_of(turn) if says else None,
            )
        )


def _context_above(turn: Any) -> TraceContext | None:
    """The context of a turn that another one started: what that does now is what led to it."""
    if turn.above is None:
        return None
    above = current_activity.get()
    doer = above.turn if isinstance(above, Activity) else above
    if above is None or doer is None or not doer.is_traced:
        return None
    context = doer.context
    return TraceContext(context.trace_id, above.id, context.flags, context.state)


def new_instance() -> str:
    """A name for this process among all that send."""
    return os.urandom(16).hex()
