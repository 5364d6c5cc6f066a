"""A clock for tests: virtual time, which jumps over every wait that nothing real takes part in."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from time import perf_counter
from types import CodeType

import trio

_TO_THREAD = inspect.unwrap(trio.to_thread.run_sync).__code__
_PARKED = trio.lowlevel.wait_task_rescheduled.__code__
_UNTIL_IDLE = "wait_all_tasks_blocked"
"""Known by its name alone: its home, `trio.testing`, takes as long to import as the rest of trio."""

_WAITING = ("tasks_waiting", "tasks_waiting_read", "tasks_waiting_write", "tasks_waiting_overlapped")
"""Where trio counts the tasks that wait for sockets, pipes and processes, whatever the system."""


class VirtualClock(trio.abc.Clock):
    """Time that costs nothing: `trio.run(main, clock=VirtualClock())`, or anyio's backend option `clock`.

    It begins at 0 and stands still while code runs. When no task can go on it jumps to the next deadline, so a
    time-out of ten minutes takes no time at all. While a task waits for something real (a thread, a socket, another
    process) it passes like any clock instead: what is real gets the time it needs, and no time-out strikes before.
    `real` is how many seconds have passed like that.

    A thread that was not started through trio is not seen: time jumps while something waits for it.
    """

    def __init__(self) -> None:
        self.real = 0.0
        self._now = 0.0
        self._passing_since: float | None = None

    def start_clock(self) -> None:
        """Nothing has to be set up."""

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
        """How many real seconds to sleep; the run loop asks when no task can go on."""
        now = self.current_time()
        if deadline <= now:
            return 0
        statistics = trio.lowlevel.current_statistics()
        tasks = tuple(_tasks(trio.lowlevel.current_root_task()))
        if statistics.run_sync_soon_queue_size or any(map(_waits_until_idle, tasks)):
            return math.inf  # the run loop is about to wake a task
        if _are_sockets_waited_for(statistics) or any(map(_waits_for_a_thread, tasks)):
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
    """A task and all below it."""
    below = [task] if task is not None else []
    while below:
        task = below.pop()
        yield task
        below += [child for nursery in task.child_nurseries for child in nursery.child_tasks]


def _waits_for_a_thread(task: trio.lowlevel.Task) -> bool:
    """Whether a thread has yet to answer; one that waits for a task of ours in turn is not what is waited for."""
    codes = _await_chain(task)
    return _PARKED in codes and codes[codes.index(_PARKED) - 1] is _TO_THREAD


def _waits_until_idle(task: trio.lowlevel.Task) -> bool:
    return any(code.co_name == _UNTIL_IDLE for code in _await_chain(task))


def _await_chain(task: trio.lowlevel.Task) -> list[CodeType]:
    """What a task is awaiting, from the outside in."""
    return [frame.f_code for frame, _ in task.iter_await_frames()]
