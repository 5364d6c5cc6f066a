"""What became of the stages of a turn, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias, overload

import msgspec

from bub.base.duration import format_duration

Raw: TypeAlias = tuple[str, str, float, float, str]
"""A record as the engine notes it: stage, implementation, begin and end on the clock, outcome."""


class TurnRecord(NamedTuple):
    """What became of one stage: `start` and `duration` in seconds since the turn began.

    `implementation` is the plugin that decided, or "" where all took part. `outcome` is one of `ok`, `default` (nobody
    answered), `skipped` (by its `when`), `off`, `failed`, `timeout`, `cancelled`, `denied`, `claimed`.
    """

    stage: str
    implementation: str
    start: float
    duration: float
    outcome: str


class Ending(msgspec.Struct, frozen=True):
    """A turn that ended before its last stage: `how` is "denied", "claimed" or "failed", `stage` did it."""

    how: str
    stage: str

    def __str__(self) -> str:
        return f"{self.how}:{self.stage}"


class Trace(Sequence[TurnRecord]):
    """What became of each stage of a turn, in the order they ended; made out when somebody looks."""

    __slots__ = ("_raw", "_zero")

    def __init__(self, raw: Sequence[Raw], zero: float) -> None:
        self._raw = raw
        self._zero = zero

    @property
    def began(self) -> float:
        """When the turn began that the records are of, as `perf_counter` counts."""
        return self._zero

    def __len__(self) -> int:
        return len(self._raw)

    def __iter__(self) -> Iterator[TurnRecord]:
        return map(self._make_record, self._raw)

    @overload
    def __getitem__(self, index: int) -> TurnRecord: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[TurnRecord, ...]: ...

    def __getitem__(self, index: int | slice) -> TurnRecord | tuple[TurnRecord, ...]:
        if isinstance(index, slice):
            return tuple(map(self._make_record, self._raw[index]))
        return self._make_record(self._raw[index])

    def outcomes(self) -> Iterator[tuple[str, float, str]]:
        """Yield stage, seconds and outcome of each record, for whoever needs no more of it."""
        return ((stage, ended - began, outcome) for stage, _, began, ended, outcome in self._raw)

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __str__(self) -> str:
        return ", ".join(f"{record.stage} {record.outcome} {format_duration(record.duration)}" for record in self)

    def _make_record(self, raw: Raw) -> TurnRecord:
        stage, implementation, began, ended, outcome = raw
        return TurnRecord(stage, implementation, began - self._zero, ended - began, outcome)
