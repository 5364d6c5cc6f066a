"""What a turn came to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from bub.base.trace import TurnRecord
from bub.envelope import Envelope, unpack_batch
from bub.pipeline.run.turn import Turn
from bub.pipeline.source.merge import DEFAULT_PROFILE


class TurnResult(NamedTuple):
    """What a turn came to; a value that no stage made is None (DESIGN §5).

    `ended_by` is None for a turn that ran to its end, else "denied:STAGE" or "claimed:STAGE"; in what is told of a
    turn that an error ended, "failed:STAGE". `trace` says what became of each stage, in the order they ended. The
    first fields are the values that `RESULTS` names, in that order.
    """

    session_id: str | None = None
    prompt: Any = None
    model_output: str | None = None
    outbounds: list[Envelope] | None = None
    state: dict[str, Any] | None = None
    ended_by: str | None = None
    profile: str = DEFAULT_PROFILE
    trace: Sequence[TurnRecord] = ()


def result_of(turn: Turn, profile: str) -> TurnResult:
    """What a turn in a profile has come to so far."""
    ended_by = str(turn.ended_by) if turn.ended_by is not None else None
    result = TurnResult._make((*turn.graph.results(turn.values), ended_by, profile, turn.trace))
    # One reply may have been made by itself, without a list; it is sent all the same.
    return result if result.outbounds is None else result._replace(outbounds=unpack_batch(result.outbounds))
