"""What a turn came to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from bub.base.trace import TurnRecord
from bub.envelope import Envelope
from bub.pipeline.run.turn import Turn
from bub.pipeline.source.merge import DEFAULT_PROFILE


class TurnResult(NamedTuple):
    """What a turn came to; a value that no stage made is None (DESIGN §5).

    `ended_by` is None for a turn that ran to its end, else "denied:STAGE" or "claimed:STAGE"; in what is told of a
    turn that an error ended, "failed:STAGE". `trace` says what became of each stage, in the order they ended.
    """

    session_id: str | None = None
    prompt: Any = None
    model_output: str | None = None
    outbounds: list[Envelope] | None = None
    state: dict[str, Any] | None = None
    ended_by: str | None = None
    profile: str = DEFAULT_PROFILE
    trace: Sequence[TurnRecord] = ()


_VALUES = TurnResult._fields[:5]
"""The fields that are values of the pipeline, under the same names."""


def result_of(turn: Turn, profile: str) -> TurnResult:
    """What a turn in a profile has come to so far."""
    values, slots, nothing, ended_by = turn.values, turn.graph.values, turn.graph.nothing, turn.ended_by
    session_id, prompt, output, outbounds, state = [values[slots.get(name, nothing)] for name in _VALUES]
    return TurnResult(
        session_id,
        prompt,
        output,
        outbounds,
        state,
        str(ended_by) if ended_by is not None else None,
        profile,
        turn.trace,
    )
