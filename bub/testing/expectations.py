"""What a test expects of a turn, held against what came of it."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bub.base.diagnostics import Place
from bub.base.duration import format_duration, parse_duration
from bub.base.trace import TurnRecord
from bub.base.waiting import PLAIN
from bub.envelope import field_of
from bub.framework import TurnResult
from bub.hooks.facts import OUTBOUNDS
from bub.pipeline.source.document import Node

IDLE = ("skipped", "off")
"""The outcomes of stages that did not run."""

_PRECISION = 0.001
"""By how many seconds a virtual time may differ from the one expected."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that did not come as expected: `path` says what (`outbounds[0].content`), `place` who says so.

    Without a path the turn as a whole went wrong, and `got` says how.
    """

    path: str
    place: Place
    expected: Any
    got: Any


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """What came of a turn: its result, the error that ended it if one did, and how long it took.

    `real` of the seconds it took passed because something real was waited for.
    """

    result: TurnResult
    error: BaseException | None
    took: float
    real: float = 0.0

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
        else:
            got = getattr(turn.result, name)
            yield from compare(node, got or [] if name == OUTBOUNDS else got, name)


def compare(expected: Node, got: Any, path: str) -> Iterator[Failure]:
    """Yield where a value differs from the one expected: of a mapping only the keys that are named count."""
    if expected.is_mapping and (isinstance(got, Mapping) or type(got) not in PLAIN):
        for name, below in expected.items():
            yield from compare(below, field_of(got, name), f"{path}.{name}")
    elif expected.is_sequence and isinstance(got, list | tuple) and len(got) == len(expected.elements()):
        for index, below in enumerate(expected.elements()):
            yield from compare(below, got[index], f"{path}[{index}]")
    elif not _same(expected.plain(), got):
        yield Failure(path, expected.where, expected.plain(), got)


def _same(expected: Any, got: Any) -> bool:
    if isinstance(expected, bool) or isinstance(got, bool):
        return expected is got
    return bool(expected == got) or (isinstance(expected, str) and type(got) not in PLAIN and expected == str(got))


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
