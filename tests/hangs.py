"""A test that hangs ends the run, red and with its name, instead of holding it up for ever.

A test hangs if it is not over at its limit and has hardly used the CPU, or has used it for most of that time. On a busy
machine it gets its limit again as long as it works; if it has child processes, once for each process that a core has.

The limits and the marker are those of pytest-timeout (`timeout` in pyproject.toml); what happens at a limit is done
here. To raise an exception from a handler of a signal does not end a hung event loop, because anyio waits for the loop
to end: so the process ends. And the stacks of threads do not show where the tasks of a loop wait: so those are printed.
"""

from __future__ import annotations

import faulthandler
import gc
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

import pytest
import trio
from pytest_timeout import Settings, is_debugging

GRACE = 15
"""Seconds beyond its limit after which the system kills a test during which Python runs no other thread."""

IDLE, WORK = 0.05, 0.75
"""The parts of its limit for which a test that works uses the CPU: at least, each time, and at most, in all."""

_settings = pytest.StashKey[Settings]()


def pytest_timeout_set_timer(item: pytest.Item, settings: Settings) -> bool:
    """Start the clock of one test; at the end of its time, if it hangs, the process ends."""
    item.stash[_settings] = settings
    over = threading.Event()
    watch = threading.Thread(target=watch_test, args=(item, settings, over), daemon=True)
    watch.start()

    def cancel() -> None:
        over.set()
        watch.join()
        _kill_after(0)

    item.cancel_timeout = cancel  # pytest-timeout calls it when the test is over
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Start the clock again for the fixtures of a test that failed: pytest-timeout has stopped it by then."""
    settings = item.stash.get(_settings, None)
    if settings is not None:
        item.cancel_timeout()
        pytest_timeout_set_timer(item, settings)
    return (yield)


def pytest_enter_pdb() -> None:
    """Let a person look around as long as they like."""
    _kill_after(0)


def watch_test(item: pytest.Item, settings: Settings, over: threading.Event) -> None:
    """End the run at the limit of a test that hangs; returns when the test is over, or a person debugs it."""
    begun = earlier = time.process_time()
    for times in itertools.count(1):
        _kill_after(settings.timeout + GRACE)
        if over.wait(settings.timeout):
            return
        now = time.process_time()
        is_idle = now - earlier < IDLE * settings.timeout and not _do_children_queue(times)
        if is_idle or now - begun > WORK * settings.timeout:
            end_run(item, settings)
            return
        earlier = now


def _do_children_queue(times: int) -> bool:
    """Whether there are child processes, and more than so many processes for each core."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return os.getloadavg()[0] > times * (os.cpu_count() or 1)
    except (AttributeError, OSError):  # there are none, or this system does not tell
        return False


def end_run(item: pytest.Item, settings: Settings) -> None:
    """Say which test hangs and where its threads and tasks wait, then end the process."""
    if not settings.disable_debugger_detection and is_debugging():
        return
    try:
        capture = item.config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.suspend_global_capture(in_=True)
        terminal = sys.__stderr__
        print(f"\n\n{item.nodeid} hangs: it did not end within {settings.timeout:g} s", file=terminal)
        faulthandler.dump_traceback(terminal)
        for task in gc.get_objects():
            if isinstance(task, trio.lowlevel.Task) and (frames := list(task.iter_await_frames())):
                print(f"\nTask {task.name} (most recent call last):", file=terminal)
                for frame, line in frames:
                    code = frame.f_code
                    print(f'  File "{code.co_filename}", line {line} in {code.co_qualname}', file=terminal)
        print(f"\n{item.nodeid} hangs (its threads and tasks are above)", file=terminal, flush=True)
    finally:
        os._exit(1)


def _kill_after(seconds: float) -> None:
    """Let the system kill this process after so many seconds; 0 takes that back."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_REAL, seconds)
