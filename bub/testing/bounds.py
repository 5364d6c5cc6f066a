"""Running something on a virtual clock, with an end in real time, and telling apart who asked for that end."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

import trio

from bub.base.failures import flatten_error
from bub.errors import BubError

GRACE = 5.0
"""How many real seconds cancelled work has for its clean-ups before it is interrupted."""

_T = TypeVar("_T")


class AbortedError(BubError):
    """The work had to be stopped: it did not end by itself, or a plugin tried to end the whole program."""


def run_bounded(
    work: Callable[[], Awaitable[_T]], clock: trio.abc.Clock, seconds: float, *, grace: float = GRACE
) -> _T:
    """Run `work` on `clock`, for `seconds` of real time at most.

    It is cancelled then, and `StoppedError` is raised; what does not even wait is interrupted `grace` seconds later.
    What a plugin raises to end the whole program, such as SystemExit, is a `StoppedError` too. Ctrl-C by a person is
    a KeyboardInterrupt, whatever the work made of it.
    """
    end = _End(seconds, grace)
    try:
        with _interruptible() as end.is_deaf:
            result = trio.run(end.run_until_end, work, clock=clock)
    except BaseException as error:
        if end.was_asked_by_person:
            raise KeyboardInterrupt from None
        if end.has_come:
            raise end.abort_error from error
        ends = [leaf for leaf in flatten_error(error) if not isinstance(leaf, Exception)]
        if ends:
            problem = f"a plugin raised {type(ends[0]).__name__}"
            raise AbortedError(problem, help="a hook has to return, or to raise an Exception") from error
        raise
    if end.was_asked_by_person:
        raise KeyboardInterrupt
    if end.has_come:
        raise end.abort_error
    return result


_WAY_OUT = "mock the stage that waits for something real, such as a model; or allow more seconds with --timeout"


class _End:
    """The end of one run: whether it has come before the work was over, and who asked for it."""

    def __init__(self, seconds: float, grace: float) -> None:
        self.has_come = False
        self.is_deaf = False
        """Whether a person's interrupt is to be ignored."""
        self._seconds = seconds
        self._grace = grace
        self._over = threading.Event()
        self._interrupts: list[int] = []
        self._sent = 0

    @property
    def was_asked_by_person(self) -> bool:
        """Whether an interrupt came that was not our own."""
        return len(self._interrupts) > self._sent

    @property
    def abort_error(self) -> AbortedError:
        """What to raise when the end has come."""
        return AbortedError(f"it did not end within {self._seconds:g} seconds of real time", help=_WAY_OUT)

    async def run_until_end(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Do the work until the end comes."""
        scope = trio.CancelScope()
        arguments = (scope, trio.lowlevel.current_trio_token(), threading.current_thread())
        watcher = threading.Thread(target=self._watch, args=arguments, daemon=True)
        with self._note_interrupts():
            watcher.start()
            try:
                with scope:
                    return await work()
            finally:
                self._over.set()
                watcher.join()  # what it sends arrives here, not in what comes after
        raise trio.TooSlowError

    def _watch(self, scope: trio.CancelScope, token: trio.lowlevel.TrioToken, runner: threading.Thread) -> None:
        if self._over.wait(self._seconds):
            return
        self.has_come = True
        token.run_sync_soon(scope.cancel)
        if runner is not threading.main_thread():
            return
        while not self._over.wait(self._grace):  # again for who takes an interrupt for a failure like any other
            self._sent += 1
            _interrupt(runner)

    @contextmanager
    def _note_interrupts(self) -> Iterator[None]:
        handler = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or not callable(handler):
            yield
            return

        def note(number: int, frame: FrameType | None) -> None:
            if self.is_deaf and len(self._interrupts) == self._sent:
                return
            self._interrupts.append(number)
            handler(number, frame)

        signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, handler)


@contextmanager
def _interruptible() -> Iterator[bool]:
    """Let an interrupt raise KeyboardInterrupt, also in a program that ignores it (yields True) or is ended by it."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not isinstance(handler, signal.Handlers):
        yield False
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield handler is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, handler)


if sys.platform == "win32":

    def _interrupt(runner: threading.Thread) -> None:
        _thread.interrupt_main()

else:

    def _interrupt(runner: threading.Thread) -> None:
        signal.pthread_kill(runner.ident or 0, signal.SIGINT)  # also ends a call of the system that blocks
