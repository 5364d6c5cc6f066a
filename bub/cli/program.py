"""The program `bub` as a process: its streams, its signals, its log."""

from __future__ import annotations

import io
import os
import signal
import sys
from types import FrameType

from bub.base.locate import bub_home
from bub.base.other_bub import explain_other, is_other_here, mend_other
from bub.cli.exits import exit_code
from bub.cli.root import command_line
from bub.gateway.hangup import HANGUP, held_hangup
from bub.log import log_to


def main() -> int:
    """Run the command line of this process and return its exit code."""
    _reopen_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot show a character gets its escape instead
            stream.reconfigure(errors="backslashreplace")
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is to be ignored, as in `bub … &`
        signal.signal(signal.SIGTERM, _end_as_ctrl_c_does)
    code = exit_code(_work)
    # Everything is reported and cleaned up. A second signal ends the process at once, without a traceback.
    hangup = (HANGUP,) if HANGUP is not None and held_hangup() is None else ()
    for number in (signal.SIGINT, signal.SIGTERM, *hangup):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    return code


def _reopen_closed_streams() -> None:
    """Let a stream that was closed before the start (`bub … >&-`) lead nowhere, rather than into the next file."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 (open to the end)


def _end_as_ctrl_c_does(number: int, frame: FrameType | None) -> None:
    """Unwind what is under way, so that clean-ups run when a supervisor ends the process too."""
    signal.raise_signal(signal.SIGINT)


def _work() -> int:
    if is_other_here():
        print(f"bub: {explain_other()}\n  {mend_other()}", file=sys.stderr)
    log_to(bub_home(os.environ) / "logs", debug=os.environ.get("BUB_DEBUG") == "1")
    return command_line()
