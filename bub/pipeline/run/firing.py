"""Points that implementations fire themselves, through the `fire` that a stage gives them."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Any

from bub.base.diagnostics import did_you_mean
from bub.base.tracing.activity import doing
from bub.base.waiting import MovingDeadline, unlimited
from bub.errors import BubError
from bub.hooks.binding import Call
from bub.hooks.kinds.gate import GATE
from bub.hooks.kinds.stream import Pulled
from bub.hooks.loops import explain
from bub.pipeline.run.failures import MORE_TIME, TooSlowError
from bub.pipeline.run.graph import FiredPoint, Step
from bub.pipeline.run.state import TurnState

_ABOUT = ("tool", "call_id")
"""What of a payload is noted beside the verdict of a gate."""


class Fire:
    """What an implementation is given as `fire` (DESIGN §2): calls the points that its pipeline declares."""

    __slots__ = ("_step", "_turn")

    def __init__(self, turn: TurnState, step: Step) -> None:
        self._turn = turn
        self._step = step

    def __call__(self, name: str, /, **payload: Any) -> Awaitable[Any]:
        """Call a hook point that the pipeline declares under `hooks:`; returns what its kind combines.

        Its implementations may name the payload and every value that the firing stage can see. A gate gives
        {"deny": reason} or None. Raises BubError if there is no such point, and what the point's policy lets through.
        """
        return self._fire(name, payload)

    def __contains__(self, name: object) -> bool:
        return name in self._turn.graph.fired

    async def _fire(self, name: str, payload: dict[str, Any]) -> Any:
        turn, step = self._turn, self._step
        point = turn.graph.fired.get(name)
        if point is None:
            known = turn.graph.fired
            advice = did_you_mean(name, known) or "declare it under `hooks:` in the pipeline file"
            raise BubError(f"stage `{step.id}` fires `{name}`, which this pipeline does not have", help=advice)
        if not point.implementations and name not in turn.registered:
            return point.kind.unanswered()
        if point.kind is not GATE:
            return await self._ask(point, payload)
        about = {key: payload[key] for key in _ABOUT if isinstance(payload.get(key), str)}
        with doing("gate", name, **about) as activity:
            verdict = await self._ask(point, payload)
            if verdict is not None:
                activity.end("denied", reason=str(verdict["deny"]))
            return verdict

    async def _ask(self, point: FiredPoint, payload: dict[str, Any]) -> Any:
        turn, step, name = self._turn, self._step, point.name
        seen = {value: turn.values[slot] for value, slot in step.sources.items()}
        values = {**seen, "fire": Fire(turn, step), **payload}
        calls = turn.calls_of_fired(point, values)
        for item in point.implementations:
            for argument in item.required:
                values.setdefault(argument, None)
        more = (partial(turn.tell, step), Pulled([]), point.manner) if point.kind.pulls else ()
        handle = partial(self._handle_failure, point)
        if point.timeout is None:
            return point.kind.fired(await point.kind.call(calls, values, unlimited, handle, *more))
        with MovingDeadline() as limit, turn.bounded_by(limit):
            limit.start(point.timeout)
            try:
                came = await point.kind.call(calls, values, limit, handle, *more)
                if not limit.has_passed():
                    return point.kind.fired(came)
            except BaseException as error:  # the time-out is a cancellation; any other one goes on
                if not limit.has_ended(error):
                    raise
        took = f"hook `{name}` took longer than {point.timeout:g} seconds"
        if point.on_failure == "propagate":
            raise TooSlowError(took, help=MORE_TIME)
        await turn.report(name, TooSlowError(took, help=MORE_TIME))
        return point.kind.late_fired()

    async def _handle_failure(self, point: FiredPoint, call: Call, error: Exception) -> None:
        """Raise what an implementation of a fired point failed with, or tell of it, as the point's policy says."""
        error = explain(error, call.plugin)
        if call.on_failure == "propagate":
            try:
                raise error
            finally:
                del error  # its traceback names this frame: the two would keep each other
        await self._turn.report(f"{call.hook}:{call.plugin}", error)
