"""How often people read how far work has come if each text is a line: often enough to see that it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable

PACE = 1.5
"""Seconds between two lines, so that nothing is silent for two."""


def seldom(say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> Callable[[str], None]:
    """Return a function that says the first text and, of those that follow, one in `PACE` seconds."""
    due = clock()

    def say_seldom(text: str) -> None:
        nonlocal due
        if clock() >= due:
            due = clock() + PACE
            say(text)

    return say_seldom
