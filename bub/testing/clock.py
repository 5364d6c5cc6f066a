"""A clock for tests: virtual time, which jumps over every wait that nothing real takes part in."""

from __future__ import annotations

import gc
import inspect
import math
from collections.abc import Iterator
from time import perf_counter
from types import CodeType
from typing import Any

import trio

_TO_THREAD = inspect.unwrap(trio.to_thread.run_sync).__code__
_PARKED = trio.lowlevel.wait_task_rescheduled.__code__
_UNTIL_IDLE = "wait_all_tasks_blocked"
"""Known by its name alone: its home, `trio.testing`, takes as long to import as the rest of trio."""
_UNTIL_ISLAND = "wait_for_island"
"""Known by its name, too: its home, `bub/island/`, imports asyncio."""

_WAITING = ("tasks_waiting", "tasks_waiting_read", "tasks_waiting_write", "tasks_waiting_overlapped")
"""The fields in which trio counts the tasks that wait for sockets, pipes and processes, whatever the system."""


class VirtualClock(trio.abc.Clock):
    """Time that costs nothing: `trio.run(main, clock=VirtualClock())`, or anyio's backend option `clock`.

    It begins at 0 and stops while code runs. When no task can go on it jumps to the next deadline, so a
    time-out of ten minutes takes no time at all. While a task waits for something real (a thread, a socket, another
    process) it passes like any clock instead: what is real gets the time it needs, and no time-out strikes before.
    `real` is how many seconds have passed like that.

    A thread that was started neither through trio nor for a plugin with `runtime: asyncio` is not seen: time jumps
    while something waits for it.
    """

    def __init__(self) -> None:
        self.real = 0.0
        self._now = 0.0
        self._passing_since: float | None = None

    def start_clock(self) -> None:
        """Nothing has to be set up."""

    @property
    def now(self) -> float:
        """The time as it was when somebody last asked for it, for whoever is in another thread."""
        return self._now

    def pass_time(self, seconds: float) -> None:
        """Let time pass, as it does while a plain function keeps everybody waiting."""
        self._now += seconds

    def current_time(self) -> float:
        """Seconds since the clock was made."""
        if self._passing_since is not None:
            # The run loop asks before any task goes on: the wait is over, and time stands still again.
            passed = perf_counter() - self._passing_since
            self._passing_since = None
            self._now += passed
            self.real += passed
        return self._now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Return how many real seconds to sleep; the run loop asks when no task can go on."""
        now = self.current_time()
        if deadline <= now:
            return 0
        statistics = trio.lowlevel.current_statistics()
        parked = [_code_that_parked(task) for task in _tasks(trio.lowlevel.current_root_task())]
        if statistics.run_sync_soon_queue_size or any(code.co_name == _UNTIL_IDLE for code in parked if code):
            return math.inf  # the run loop is about to wake a task
        is_real = _TO_THREAD in parked or any(code.co_name == _UNTIL_ISLAND for code in parked if code)
        if is_real or _are_sockets_waited_for(statistics):
            self._passing_since = perf_counter()
            return deadline - now
        if deadline == math.inf:
            return deadline
        self._now = deadline
        return 0


def _are_sockets_waited_for(statistics: trio.lowlevel.RunStatistics) -> bool:
    # One is trio's own, by which threads and signals wake it.
    return sum(getattr(statistics.io_statistics, name, 0) for name in _WAITING) > 1


def _tasks(task: trio.lowlevel.Task | None) -> Iterator[trio.lowlevel.Task]:
    """Yield a task and all below it."""
    below = [task] if task is not None else []
    while below:
        task = below.pop()
        yield task
        below += [child for nursery in task.child_nurseries for child in nursery.child_tasks]


def _code_that_parked(task: trio.lowlevel.Task) -> CodeType | None:
    """Return what put a task to sleep.

    For a thread that has yet to answer it is `_TO_THREAD`; not where the thread waits for something of ours in turn.
    """
    codes = list(_await_chain(task.coro))
    return codes[codes.index(_PARKED) - 1] if _PARKED in codes else None


_LAYERS = (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await"))
"""How coroutines, generators and asynchronous generators show where they are, and what they wait for."""


def _await_chain(awaited: Any) -> Iterator[CodeType]:
    """Yield what is awaited, from the outside in.

    Some of what Python puts between does not say what it wraps, such as `coroutine.__await__()` and `anext(it, None)`,
    at which `Task.iter_await_frames` ends.
    """
    while awaited is not None:
        for frame, below in _LAYERS:
            if hasattr(awaited, frame):
                yield getattr(awaited, frame).f_code
                awaited = getattr(awaited, below)
                break
        else:
            held = gc.get_referents(awaited)
            awaited = next((one for one in held if hasattr(one, "send") or hasattr(one, "asend")), None)
