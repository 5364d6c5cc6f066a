"""Failures of a turn: what a time-out raises, and who gets whatever went wrong."""

from __future__ import annotations

import trio

from bub.base.waiting import Within
from bub.envelope import Envelope
from bub.errors import BubError
from bub.hooks.binding import Call
from bub.hooks.kinds.observer import observer
from bub.log import log_exception, log_warning
from bub.pipeline.run.graph import Graph

REPORTING_PATIENCE = 10.0
"""How long, in seconds, error observers may take while a turn is being unwound."""

MORE_TIME = "give it more `timeout` in the pipeline file, or find out what it waited for"


class TooSlowError(BubError, trio.TooSlowError):
    """The time that the pipeline file gives a stage or a hook is up."""


async def tell_observers(
    graph: Graph, stage: str, error: Exception, message: Envelope, *, shield: bool = False
) -> None:
    """Log a failure and tell the error observers of a graph, each by itself and within its time (BEHAVIOURS H19).

    With `shield` they get it whatever else is cancelled.
    """
    log_exception("turn.failure", error, stage=stage)
    if not graph.observers.items:
        return
    values = {"stage": stage, "error": error, "message": message}

    async def log(call: Call, failure: Exception) -> None:
        log_warning("hook.on_error_failed", stage=stage, adapter=call.plugin, error=failure)

    await observer(graph.observers, values, Within(REPORTING_PATIENCE, shield), log)
