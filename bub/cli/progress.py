"""How far work has come, in one line on a terminal, once it has lasted for a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

PATIENCE = 1.0
"""How many seconds work has to last before a command prints its progress."""

_PAUSE = 0.1


@contextmanager
def progress(
    doing: str, total: int | None, stream: TextIO, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[int], None]]:
    """Give a function that takes how much of a `total` (None: nobody knows it) is done; the line goes with the work.

    A pipe has none.
    """
    of = f" of {total:,}" if total is not None else ""
    due = clock() + PATIENCE
    is_shown = False

    def tell(done: int) -> None:
        nonlocal due, is_shown
        now = clock()
        if now >= due and stream.isatty():
            due, is_shown = now + _PAUSE, True
            stream.write(f"\r{doing} {done:,}{of}\x1b[K")
            stream.flush()

    try:
        yield tell
    finally:
        if is_shown:
            stream.write("\r\x1b[K")
            stream.flush()
