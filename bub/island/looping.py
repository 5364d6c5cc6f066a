"""An asyncio loop that runs in a thread of its own until it is ended."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol

import trio

from bub.island.faults import IslandBlockedError, IslandError
from bub.island.patience import Patience
from bub.island.workers import Workers
from bub.log import log_exception, log_warning

_TICKS = 10
"""How often a loop is asked whether it still runs before it counts as blocked; not while nothing is open there."""

_STANDARD = os.path.dirname(os.path.dirname(asyncio.__file__))  # noqa: PTH120 (compared with names of files of code)
_OURS = ("bub", "bub_reference")


class Opened(Protocol):
    """Something that trio waits for, on a loop."""

    def fail(self, error: IslandError) -> None:
        """Let whoever waits go on with an error; called in any thread."""


class LoopThread:
    """The loop and its thread; `opened` is what trio waits for there, `token` the run of trio that called last.

    A second thread asks the loop now and then whether it still runs. It counts how often it has asked, and not how
    late it is, so a machine that slept is no reason to call a plugin blocked.
    """

    def __init__(self, plugin: str, patience: Patience) -> None:
        self.plugin = plugin
        self.patience = patience
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(self._log)
        self.loop.set_default_executor(Workers())
        self.opened: set[Opened] = set()
        self.crossings: dict[asyncio.Task[Any], Any] = {}
        """What is called from trio, by the task that answers it."""
        self.token: trio.lowlevel.TrioToken | None = None
        self.blocked_at: str | None = None
        self._over = threading.Event()
        self._needed = threading.Event()
        self._has_answered = True
        self._when_over: list[Callable[[], None]] = []
        self._thread = threading.Thread(target=self._run, name=f"bub island {plugin}", daemon=True)
        self._thread.start()
        self._watcher = threading.Thread(target=self._watch, name=f"bub island {plugin}, watched", daemon=True)
        self._watcher.start()

    @property
    def is_here(self) -> bool:
        """Whether the thread that asks is the loop's own."""
        return threading.get_ident() == self._thread.ident

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call something on the loop, soon; nothing happens if it has ended."""
        try:
            self.loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # it is closed: whoever waited was told when it ended
            return

    def enter(self, opened: Opened, begin: Callable[[], object]) -> None:
        """Begin something on the loop that trio waits for, until `leave`."""
        self.opened.add(opened)
        if not self._needed.is_set():
            self._needed.set()
        self.post(begin)

    def leave(self, opened: Opened) -> None:
        """Take off what nobody waits for any more."""
        self.opened.discard(opened)

    def where(self) -> str:
        """Return the place of the thread: file, line and function of the plugin or of what it called, and the caller.

        A library of the plugin's may be on either side of it: called by it, or calling back what it was handed.
        """
        frame = sys._current_frames().get(self._thread.ident or 0)
        of_others, places = [], []
        while frame is not None:
            places.append(f"{frame.f_code.co_filename}:{frame.f_lineno} in `{frame.f_code.co_name}`")
            if not _is_machinery(frame):
                of_others.append(places[-1])
            frame = frame.f_back
        if len(of_others) > 1:
            return f"{of_others[0]} (called from {of_others[-1]})"
        return [*of_others, *places, "an unknown place"][0]

    def _log(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Write down what asyncio found, such as the failure of a task that nobody awaits."""
        error = context.get("exception")
        if isinstance(error, Exception):
            log_exception("island.task_failed", error, adapter=self.plugin)
        else:
            log_warning("island.warned", adapter=self.plugin, what=context.get("message"))

    # Ending.

    def end(self, when_over: Callable[[], None] | None = None) -> None:
        """Cancel the tasks, and end loop and thread when they have ended, in bounded time.

        `when_over` is called in another thread: when all is over, or when it has taken too long, which is logged.
        """
        if when_over is not None:
            self._when_over.append(when_over)
        self._needed.set()
        threading.Thread(target=self._see_to_the_end, daemon=True).start()
        self.post(lambda: self.loop.create_task(self._cancel_all()))

    def _see_to_the_end(self) -> None:
        # Its tasks may take that long, and so may what they have opened; nothing ends while it is blocked.
        self._thread.join(2 * self.patience.ending if self.blocked_at is None else self.patience.ending / 5)
        if self._thread.is_alive():
            log_warning("island.does_not_end", adapter=self.plugin, place=self.where())
        self._over.set()
        self._needed.set()
        error = IslandError(self.plugin, f"the asyncio loop of plugin `{self.plugin}` has ended")
        for opened in tuple(self.opened):
            opened.fail(error)
        self._watcher.join(self.patience.ending)
        for tell in self._when_over:
            tell()

    async def _cancel_all(self) -> None:
        tasks = asyncio.all_tasks(self.loop) - {asyncio.current_task(self.loop)}
        for task in tasks:
            task.cancel()
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=self.patience.ending)
            for task in left:
                log_warning("island.task_goes_on", adapter=self.plugin, task=task.get_name())
        try:
            await asyncio.wait_for(self.loop.shutdown_asyncgens(), self.patience.ending)
        except TimeoutError:
            log_warning("island.generators_go_on", adapter=self.plugin)
        self._over.set()
        self.loop.stop()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        while not self._over.is_set():
            try:
                self.loop.run_forever()
            except (SystemExit, KeyboardInterrupt) as error:  # asyncio raises these here, out of a plugin's task
                log_exception("island.task_failed", error, adapter=self.plugin)
        self.loop.close()

    # Watching.

    def _watch(self) -> None:
        unanswered = 0
        while not self._over.wait(self.patience.blocked / _TICKS):
            if self._has_answered and self.blocked_at is not None:
                self.blocked_at = None
                log_warning("island.runs_again", adapter=self.plugin)
            if self._has_answered and not self.opened:
                self._needed.clear()
                if not self.opened and not self._over.is_set():  # either may have come before the line above
                    self._needed.wait()
            if self._has_answered:
                unanswered, self._has_answered = 0, False
                self.post(self._answer)
                continue
            unanswered += 1
            if unanswered == _TICKS:
                self._give_up()

    def _answer(self) -> None:
        self._has_answered = True

    def _give_up(self) -> None:
        """Let all who wait go on without the plugin; its tasks are cancelled, should the loop ever run again."""
        self.blocked_at = self.where()
        seconds = self.patience.blocked
        log_warning("island.blocked", adapter=self.plugin, place=self.blocked_at, seconds=seconds)
        for opened in tuple(self.opened):
            opened.fail(IslandBlockedError(self.plugin, self.blocked_at, seconds))


async def wait_for_island(abort: Callable[[Callable[[], None]], trio.lowlevel.Abort]) -> None:
    """Let a task of trio wait until a loop wakes it; a clock for tests knows by this name that the wait is real."""
    await trio.lowlevel.wait_task_rescheduled(abort)


def _is_machinery(frame: FrameType) -> bool:
    """Whether code is of Bub or of Python itself."""
    file, module = frame.f_code.co_filename, str(frame.f_globals.get("__name__", ""))
    is_standard = file.startswith(_STANDARD) and "-packages" not in file
    return is_standard or file.startswith("<") or module.partition(".")[0] in _OURS
