"""Ctrl-C while a turn is under way: the first one unwinds it, the next one ends the process."""

from __future__ import annotations

import signal
import time
from types import FrameType

SAME_PRESS = 0.2
"""How long, in seconds, further signals count as the one before: a key that is held down, a supervisor that insists."""


def let_second_interrupt_end() -> None:
    """Let whatever handles SIGINT now do so once; a later one ends the process at once, without a traceback.

    Without this, each further Ctrl-C would be raised wherever the clean-ups of the first one are just then.
    """
    handle_first = signal.getsignal(signal.SIGINT)
    if not callable(handle_first):  # ignored, as in `bub … &`
        return
    pressed_at: float | None = None

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal pressed_at
        now = time.monotonic()
        if pressed_at is None:
            pressed_at = now
            handle_first(number, frame)
        elif now - pressed_at > SAME_PRESS:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGINT, interrupt)
