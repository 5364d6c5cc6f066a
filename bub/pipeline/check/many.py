"""Checks many files with all cores of the machine; what is found is the same as with one, and in the same order."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from bub.pipeline.check.validate import CheckedFile, Found, Further, check_each
from bub.pipeline.source.discovery import PipelineFile

if TYPE_CHECKING:  # 15 ms that only those pay who have many files
    from multiprocessing.connection import Connection
    from multiprocessing.context import Process

MANY = 150
"""From how many files on other processes help: to begin them takes as long as to check fifty files."""

AT_ONCE = 20
"""How many files a process checks before it answers."""

_Check: TypeAlias = Callable[[Sequence[PipelineFile]], Iterable[Found]]


def check_many(
    files: Sequence[PipelineFile],
    *,
    profiles: Sequence[str] | None,
    environ: Mapping[str, str],
    tell: Callable[[int], None],
    further: Further | None = None,
    processes: int | None = None,
) -> CheckedFile:
    """Find what `check_files` finds, in `processes` (None: as many as there are cores, if there are many files).

    There is one process if there is a `further` check, which may import what others have written. `tell` is called
    with the number of the files that are checked, again and again.
    """
    check = partial(check_each, profiles=profiles, environ=dict(environ), further=further)
    workers = processes or (_cores() if len(files) >= MANY and further is None else 1)
    gathered = Found.nothing()
    for number, found in enumerate(_check_beside(files, check, workers) if workers > 1 else check(files), 1):
        gathered.add(found)
        tell(number)
    return gathered.settle(complete=profiles is None, loaded=further is not None)


class _Worker(msgspec.Struct, frozen=True):
    process: Process
    answers: Connection


def _check_beside(files: Sequence[PipelineFile], check: _Check, workers: int) -> Iterator[Found]:
    """Check files in other processes; what one of them does not answer is checked here, and fails here."""
    pieces = [files[at : at + AT_ONCE] for at in range(0, len(files), AT_ONCE)]
    begun: list[_Worker] = []
    try:
        with _without_interrupts():
            for first in range(min(workers, len(pieces))):
                begun.append(_begin(check, pieces[first::workers], begun))
        for number, piece in enumerate(pieces):
            try:
                found = begun[number % workers].answers.recv()
            except (EOFError, OSError):
                found = None
            yield from check(piece) if found is None else found
    finally:
        for worker in begun:
            worker.process.terminate()
            worker.process.join()
            worker.answers.close()


def _begin(check: _Check, pieces: Sequence[Sequence[PipelineFile]], others: Iterable[_Worker]) -> _Worker:
    import multiprocessing

    answers, answering = multiprocessing.Pipe(duplex=False)
    not_ours = [answers, *(other.answers for other in others)]
    process = multiprocessing.get_context().Process(
        target=_answer, args=(check, pieces, answering, not_ours), daemon=True
    )
    process.start()
    answering.close()
    return _Worker(process, answers)


def _answer(
    check: _Check, pieces: Sequence[Sequence[PipelineFile]], answering: Connection, not_ours: Iterable[Connection]
) -> None:
    """Check pieces and answer for each; None for one that cannot be checked: who asked sees why."""
    for other in not_ours:  # so that a process nobody listens to any more notices it, and ends
        other.close()
    with suppress(OSError):
        for piece in pieces:
            try:
                found = list(check(piece))
            except Exception:  # noqa: BLE001 (it is raised again where it can be told)
                found = None
            answering.send(found)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Begin processes that Ctrl-C does not reach: the one that began them ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
