"""What a test expects of a turn, held against what came of it."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bub.base.duration import format_duration, parse_duration
from bub.base.trace import TurnRecord
from bub.framework import TurnResult
from bub.hooks.facts import OUTBOUNDS
from bub.pipeline.source.document import Node
from bub.testing.matching import Failure, compare

IDLE = ("skipped", "off")
"""The outcomes of stages that did not run."""

_PRECISION = 0.001
"""By how many seconds a virtual time may differ from the one expected."""


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """What came of a turn: its result, the error that ended it if one did, and how long it took.

    `real` of the seconds it took passed because something real was waited for. `streamed` are the parts of the answer
    that were shown, `tool_calls` the calls of tools with their results, `calls` what each mock was called with.
    """

    result: TurnResult
    error: BaseException | None
    took: float
    real: float = 0.0
    streamed: Sequence[str] = ()
    tool_calls: Sequence[Mapping[str, Any]] = ()
    calls: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    @property
    def failed_in(self) -> str | None:
        """The stage that failed."""
        how, _, stage = str(self.result.ended_by or "").partition(":")
        return stage if how == "failed" else None


def find_failures(expect: Node, turn: TurnOutcome) -> Iterator[Failure]:
    """Yield every expectation that a turn did not meet, in the order they are written."""
    for name, node in expect.items():
        if name == "error":
            yield from _error(node, turn)
        elif name == "took":
            yield from _took(node, turn)
        elif name in ("ran", "skipped"):
            yield from _stages(name, node, turn.result.trace)
        elif name == "streamed":
            yield from compare(node, list(turn.streamed), name)
        elif name == "tool_calls":
            yield from compare(node, list(turn.tool_calls), name)
        elif name == "calls":
            for mock, calls in node.items():
                yield from _calls(calls, turn.calls.get(mock, ()), f"{name}.{mock}")
        else:
            got = getattr(turn.result, name)
            yield from compare(node, got or [] if name == OUTBOUNDS else got, name)


def _error(expected: Node, turn: TurnOutcome) -> Iterator[Failure]:
    error = turn.error
    if error is None:
        ended = f"the turn ended as {turn.result.ended_by}" if turn.result.ended_by else "the turn ran to its end"
        yield Failure("error", expected.where, expected.plain(), ended)
        return
    names, text = [kind.__name__ for kind in type(error).__mro__], str(error)
    seen: Mapping[str, tuple[Any, Container[Any]]] = {
        "stage": (turn.failed_in, [turn.failed_in]),
        "type": (names[0], names),
        "message": (text, text),  # of a text, any part is in it
    }
    for name, node in expected.items():
        got, among = seen[name]
        if node.value not in among:
            yield Failure(f"error.{name}", node.where, node.plain(), got)


def _took(expected: Node, turn: TurnOutcome) -> Iterator[Failure]:
    seconds = parse_duration(str(expected.value)) or 0.0
    # What real waiting added is different each time, so nobody can expect it, and nobody has to.
    if not seconds - _PRECISION <= turn.took <= seconds + turn.real + _PRECISION:
        yield Failure("took", expected.where, expected.plain(), format_duration(turn.took))


def _stages(name: str, expected: Node, trace: Sequence[TurnRecord]) -> Iterator[Failure]:
    became = {record.stage: f"was {record.outcome}" for record in trace if record.outcome in IDLE}
    became |= {record.stage: f"ran ({record.outcome})" for record in trace if record.outcome not in IDLE}
    for index, node in enumerate(expected.elements()):
        got = became.get(node.value, "was not reached")
        if got.startswith("ran") != (name == "ran"):
            meant = "ran" if name == "ran" else "did not run"
            yield Failure(f"{name}[{index}]", node.where, f"{node.value} {meant}", f"{node.value} {got}")


def _calls(expected: Node, calls: Sequence[Mapping[str, Any]], path: str) -> Iterator[Failure]:
    """Yield what is wrong with the calls of one mock: their number, or the arguments that are named."""
    wanted = expected.elements() if expected.is_sequence else ()
    most = len(wanted) if expected.is_sequence else expected.value
    if len(calls) != most:
        named = {name for call in wanted for name, _ in call.items()}
        said = [{name: call[name] for name in call if name in named} for call in calls]
        with_what = f": {said}" if named and said else ""
        yield Failure(path, expected.where, format_count(most), f"{format_count(len(calls))}{with_what}")
        return
    for index, (call, got) in enumerate(zip(wanted, calls, strict=False)):
        yield from compare(call, got, f"{path}[{index}]")


def format_count(calls: int) -> str:
    """Return how many calls there were, in words."""
    return "1 call" if calls == 1 else f"{calls} calls"
