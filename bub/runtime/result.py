"""The result of a turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from bub.base.trace import TurnRecord
from bub.envelope import Envelope, content_of, unpack_batch
from bub.pipeline.run.turn import Turn
from bub.pipeline.source.merge import DEFAULT_PROFILE


class TurnResult(NamedTuple):
    """The result of a turn; a value that no stage made is None (DESIGN §5).

    `ended_by` is None for a turn that ran to its end, else "denied:STAGE" or "claimed:STAGE"; in what is said of a
    turn that an error ended, "failed:STAGE". `trace` says what became of each stage, in the order they ended. The
    first fields are the values that `RESULTS` names, in that order. Those are as the stages left them: if
    `is_withheld`, `model_output` holds words that a stage below kept back or took out, so show it to nobody.
    """

    session_id: str | None = None
    prompt: Any = None
    model_output: str | None = None
    outbounds: list[Envelope] | None = None
    state: dict[str, Any] | None = None
    ended_by: str | None = None
    profile: str = DEFAULT_PROFILE
    trace: Sequence[TurnRecord] = ()
    is_withheld: bool = False


def result_of(turn: Turn, profile: str) -> TurnResult:
    """Return what a turn in a profile has made so far."""
    ended_by = str(turn.ended_by) if turn.ended_by is not None else None
    result = TurnResult._make((*turn.graph.results(turn.values), ended_by, profile, turn.trace, False))
    if result.outbounds is not None:  # one reply may have been made by itself, without a list; it is sent all the same
        result = result._replace(outbounds=unpack_batch(result.outbounds))
    return result._replace(is_withheld=True) if _withholds(turn, result) else result


def _withholds(turn: Turn, result: TurnResult) -> bool:
    """Whether the turn ended early, or its replies were judged and hold no longer what the model said."""
    if turn.ended_by is not None:
        return True
    if all(_are_same(turn.values[before], turn.values[after]) for before, after in turn.graph.judged):
        return False
    said = str(result.model_output or "").strip()
    return not any(said in content_of(reply) for reply in result.outbounds or ())


def _are_same(before: Any, after: Any) -> bool:
    if before is after:
        return True
    found, left = unpack_batch(before), unpack_batch(after)
    return len(found) == len(left) and all(one is other for one, other in zip(found, left, strict=True))
