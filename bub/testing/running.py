"""Running one test: load, one turn on virtual time, and what is wrong with what came of it."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import trio

from bub.base.diagnostics import Place
from bub.base.trace import TurnRecord
from bub.framework import TurnResult
from bub.log import log_exception
from bub.pipeline.source.merge import Document
from bub.secrets.redactor import Redactor
from bub.testing.bounds import AbortedError, run_bounded
from bub.testing.clock import VirtualClock
from bub.testing.expectations import Failure, TurnOutcome, find_failures
from bub.testing.rehearsal import Rehearsal
from bub.testing.trials import Trial


class ReportedFailure(NamedTuple):
    """A failure that was told: of a `stage` as `on_error` knows it, and in words."""

    stage: str
    text: str
    is_late: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one test; it passed if there are no `failures`.

    `took` is virtual time in seconds. `told` are the failures that were told during the turn, also those that it went
    on without. Secrets in them and in the failures are covered.
    """

    trial: Trial
    profile: str
    took: float
    failures: tuple[Failure, ...]
    trace: tuple[TurnRecord, ...] = ()
    told: tuple[ReportedFailure, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.failures


def run_trial(
    trial: Trial, document: Document, *, start: str | None, workspace: Path, timeout: float, mask: Redactor
) -> Verdict:
    """Run one test in a runtime of its own, for `timeout` seconds of real time at most.

    What its plugins print goes to standard error. Raises KeyboardInterrupt when a person asks for the end.
    """
    rehearsal = Rehearsal(document, trial.mocks, own=trial.profile, start=start, workspace=workspace)
    turn = TurnOutcome(TurnResult(), None, 0.0)
    found: list[Failure] = []
    if trial.trouble:
        found = [Failure("", Place(one.file, one.range), None, one.message) for one in trial.trouble]
    else:
        clock = VirtualClock()
        try:
            with redirect_stdout(sys.stderr), rehearsal.load():
                turn = run_bounded(partial(_run_turn, rehearsal, trial.message, clock), clock, timeout)
        except Exception as error:  # noqa: BLE001 (whatever ends a test is that test's failure)
            log_exception("test.failed", error, test=trial.id)
            turn = replace(turn, result=rehearsal.last_result or turn.result, error=error)
            found = [Failure("", trial.place, None, _describe_error(error, rehearsal.modules))]
        else:
            found = list(_judge(trial, turn, rehearsal.modules))
    return Verdict(
        trial,
        turn.result.profile if turn.result.trace else rehearsal.profile,
        turn.took,
        tuple(replace(one, expected=mask.value(one.expected), got=mask.value(one.got)) for one in found),
        tuple(turn.result.trace),
        tuple(
            ReportedFailure(
                stage, mask.text(_describe_error(error, rehearsal.modules)), isinstance(error, trio.TooSlowError)
            )
            for stage, error in rehearsal.told
        ),
    )


async def _run_turn(rehearsal: Rehearsal, message: Mapping[str, Any], clock: VirtualClock) -> TurnOutcome:
    async with rehearsal.running():
        error: Exception | None = None
        began, real = trio.current_time(), clock.real
        try:
            await rehearsal.process_inbound(message)
        except Exception as failure:  # noqa: BLE001 (a turn may be expected to fail)
            error = failure
        result = rehearsal.last_result or TurnResult()
        return TurnOutcome(result, error, trio.current_time() - began, clock.real - real)


def _judge(trial: Trial, turn: TurnOutcome, modules: Collection[str]) -> Iterator[Failure]:
    if turn.error is not None and trial.expect.get("error") is None:
        # That the turn failed says all; what is missing after it follows from that.
        where = f" in stage `{turn.failed_in}`" if turn.failed_in not in (None, "turn") else ""
        yield Failure("", trial.place, None, f"the turn failed{where}: {_describe_error(turn.error, modules)}")
        return
    yield from find_failures(trial.expect, turn)


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
