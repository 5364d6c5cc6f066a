"""Threads for what an asyncio loop puts aside, such as `asyncio.to_thread` and the look-up of addresses."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import trio

_MOST = 32
"""How many run at once; others wait."""


class Workers(ThreadPoolExecutor):
    """An executor on the threads of trio, which do not keep the process from ending while they wait for something."""

    def __init__(self) -> None:
        super().__init__(1)
        self._order = threading.Lock()
        self._jobs: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._running = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call a function in a thread, soon."""
        future: Future[Any] = Future()
        with self._order:
            self._jobs.append((future, lambda: fn(*args, **kwargs)))
        self._start()
        return future

    def _start(self) -> None:
        """Begin with those that wait, as far as there is room."""
        while True:
            with self._order:
                if not self._jobs or self._running == _MOST:
                    return
                future, job = self._jobs.popleft()
                if not future.set_running_or_notify_cancel():
                    continue
                self._running += 1
            trio.lowlevel.start_thread_soon(partial(_run, future, job), self._finish)

    def _finish(self, _: object) -> None:
        with self._order:
            self._running -= 1
        self._start()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Begin with nothing more; what runs is left to itself."""
        with self._order:
            jobs, self._jobs = self._jobs, deque()
        for future, _ in jobs:
            future.cancel()


def _run(future: Future[Any], job: Callable[[], Any]) -> None:
    try:
        value = job()
    except BaseException as error:  # noqa: BLE001 (raised by whoever waits)
        future.set_exception(error)
    else:
        future.set_result(value)
