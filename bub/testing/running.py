"""Running one test: load, its turns on virtual time, and what is wrong with what came of them."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import trio

from bub.base.diagnostics import Place
from bub.base.trace import TurnRecord
from bub.framework import TurnResult
from bub.log import log_exception
from bub.pipeline.source.merge import Document
from bub.secrets.redactor import Redactor
from bub.streaming import StreamEvent
from bub.testing.bounds import AbortedError, run_bounded
from bub.testing.clock import VirtualClock
from bub.testing.expectations import TurnOutcome, find_failures, format_count
from bub.testing.matching import Failure
from bub.testing.mocks import Mocks
from bub.testing.rehearsal import Rehearsal
from bub.testing.surroundings import environment, with_settings
from bub.testing.trials import Exchange, Trial


class ReportedFailure(NamedTuple):
    """A failure that was reported: of a `stage` as `on_error` knows it, and in words."""

    stage: str
    text: str
    is_late: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one test; it passed if there are no `failures`.

    `took` is virtual time in seconds. `traces` say what became of the stages, for each turn up to the first that did
    not come as expected. `told` are the failures that were reported meanwhile, also those that a turn went on without.
    Secrets in them and in the failures are covered.
    """

    trial: Trial
    profile: str
    took: float
    failures: tuple[Failure, ...]
    traces: tuple[tuple[TurnRecord, ...], ...] = ()
    told: tuple[ReportedFailure, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.failures

    @property
    def trace(self) -> tuple[TurnRecord, ...]:
        """What became of the stages in all turns."""
        return tuple(chain.from_iterable(self.traces))


def run_trial(
    trial: Trial, document: Document, *, start: str | None, workspace: Path, timeout: float, mask: Redactor
) -> Verdict:
    """Run one test in a runtime of its own, for `timeout` seconds of real time at most.

    What its plugins print goes to standard error. Raises KeyboardInterrupt when a person asks for the end.
    """
    with environment(trial.env):
        return _run_trial(trial, with_settings(document, trial.settings), start, workspace, timeout, mask)


def _run_trial(
    trial: Trial, document: Document, start: str | None, workspace: Path, timeout: float, mask: Redactor
) -> Verdict:
    mocks = trial.mocks.anew()
    rehearsal = Rehearsal(document, mocks, own=trial.profile, start=start, workspace=workspace)
    turns: list[TurnOutcome] = []
    found: list[Failure] = []
    if trial.trouble:
        found = [Failure("", Place(one.file, one.range), None, one.message) for one in trial.trouble]
    else:
        clock = VirtualClock()
        try:
            with redirect_stdout(sys.stderr), rehearsal.load():
                run = partial(_run_turns, trial, rehearsal, mocks, clock, turns, found)
                run_bounded(run, clock, timeout)
        except Exception as error:  # noqa: BLE001 (whatever ends a test is that test's failure)
            log_exception("test.failed", error, test=trial.id)
            if not found:
                turns.append(TurnOutcome(rehearsal.last_result or TurnResult(), error, 0.0))
            found.insert(0, Failure("", trial.place, None, _describe_error(error, rehearsal.modules)))
    traces = tuple(tuple(turn.result.trace) for turn in turns)
    return Verdict(
        trial,
        turns[0].result.profile if turns and turns[0].result.trace else rehearsal.profile,
        sum(turn.took for turn in turns),
        tuple(replace(one, expected=mask.value(one.expected), got=mask.value(one.got)) for one in found),
        traces,
        tuple(
            ReportedFailure(
                stage, mask.text(_describe_error(error, rehearsal.modules)), isinstance(error, trio.TooSlowError)
            )
            for stage, error in rehearsal.told
        ),
    )


async def _run_turns(
    trial: Trial,
    rehearsal: Rehearsal,
    mocks: Mocks,
    clock: VirtualClock,
    turns: list[TurnOutcome],
    found: list[Failure],
) -> None:
    """Run one turn after another, up to the first that does not come as expected; note each, and what is `found`."""
    async with rehearsal.running():
        for exchange in trial.exchanges:
            turn = await _run_turn(rehearsal, exchange.message, mocks, clock)
            turns.append(turn)
            found += _unanswered(mocks)
            for one in _judge(exchange, turn, rehearsal.modules):
                found.append(replace(one, path=f"{exchange.path}{one.path}") if one.path else one)
            if found:
                return


async def _run_turn(rehearsal: Rehearsal, message: Mapping[str, Any], mocks: Mocks, clock: VirtualClock) -> TurnOutcome:
    error: Exception | None = None
    events: list[StreamEvent] = []
    called = {name: len(mock.calls) for name, mock in mocks.points.items()}
    began, real = trio.current_time(), clock.real
    try:
        await rehearsal.process_inbound(message, lambda event, _: events.append(event))
    except Exception as failure:  # noqa: BLE001 (a turn may be expected to fail)
        error = failure
    return TurnOutcome(
        rehearsal.last_result or TurnResult(),
        error,
        trio.current_time() - began,
        clock.real - real,
        streamed=[event.data["delta"] for event in events if event.kind == "text"],
        tool_calls=list(_tool_calls(events)),
        calls={name: mock.calls[called[name] :] for name, mock in mocks.points.items()},
    )


def _tool_calls(events: Sequence[StreamEvent]) -> Iterator[dict[str, Any]]:
    """Yield the calls of tools in the order they were made, each with its `result` if it came."""
    results = {event.data["id"]: event.data["content"] for event in events if event.kind == "tool_result"}
    for event in events:
        if event.kind == "tool_call":
            call = event.data
            yield {"name": call["name"], "arguments": call["arguments"], "result": results.get(call["id"])}


def _unanswered(mocks: Mocks) -> Iterator[Failure]:
    """Yield the mocks that were called more often than they have answers."""
    for section, some in (("mock", mocks.points), ("mock_tools", mocks.tools)):
        for name, mock in some.items():
            if mock.missing:
                most, calls = format_count(len(mock.answers)), format_count(len(mock.calls))
                yield Failure(f"{section}.{name}.answers", mock.place, f"{most} at most", calls)


def _judge(exchange: Exchange, turn: TurnOutcome, modules: Collection[str]) -> Iterator[Failure]:
    if turn.error is not None and exchange.expect.get("error") is None:
        # That the turn failed says all; what is missing after it follows from that.
        where = f" in stage `{turn.failed_in}`" if turn.failed_in not in (None, "turn") else ""
        yield Failure("", exchange.place, None, f"the turn failed{where}: {_describe_error(turn.error, modules)}")
        return
    yield from find_failures(exchange.expect, turn)


def _describe_error(error: BaseException, modules: Collection[str]) -> str:
    """Return what an exception says of itself, and the last place in the files of plugins that it came through."""
    text = " ".join(str(error).split())
    if isinstance(error, AbortedError):
        return f"{text} ({error.help})"
    told = f"{type(error).__name__}: {text}" if text else type(error).__name__
    place = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") in modules:
            place = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{told} ({place})" if place is not None else told
