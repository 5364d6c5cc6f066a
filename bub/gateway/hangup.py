"""SIGHUP while a program is being loaded: it is held until it is known what it means to the program."""

from __future__ import annotations

import os
import signal
from types import FrameType

HANGUP: int | None = getattr(signal, "SIGHUP", None)  # Windows has none


def find_terminal() -> int | None:
    """Return a standard stream of this process that is a terminal; None if none of them is."""
    return next((stream for stream in range(3) if os.isatty(stream)), None)


class HeldHangup:
    """A handler that notes whether the signal `has_come`, and which stream was a `terminal` before."""

    def __init__(self) -> None:
        self.terminal = find_terminal()
        self.has_come = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.has_come = True


def hold_hangup() -> None:
    """Hold the signal from now on, unless it is ignored, as under `nohup`."""
    if HANGUP is not None and signal.getsignal(HANGUP) is signal.SIG_DFL:
        signal.signal(HANGUP, HeldHangup())


def held_hangup() -> HeldHangup | None:
    """Return what holds the signal, if it is held."""
    handler = signal.getsignal(HANGUP) if HANGUP is not None else None
    return handler if isinstance(handler, HeldHangup) else None


def let_hangup_end() -> None:
    """Hold the signal no more: it ends the program as SIGTERM does, at once if it has come."""
    held = held_hangup()
    if held is not None and HANGUP is not None:
        signal.signal(HANGUP, signal.getsignal(signal.SIGTERM))
        if held.has_come:
            signal.raise_signal(HANGUP)
