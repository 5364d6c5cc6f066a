"""What a screen borrows of its process while it is there: the terminal, its keys, and standard output."""

from __future__ import annotations

import os
import select
import signal
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import TextIOBase
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.key_binding import KeyPress

_AT_ONCE = 4096
_STOPPING = 0.1
"""How long, in seconds, a process may take to be stopped by a signal that it has sent to itself."""


@contextmanager
def restore_terminal(stdin: TextIO, out: TextIO) -> Iterator[None]:
    """Leave a terminal as it was, whatever happens to who draws on it."""
    before = termios.tcgetattr(stdin.fileno())
    try:
        yield
    finally:
        try:
            out.write("\x1b[?2004l\x1b[?25h\x1b[0m")  # pasted text is not marked, the cursor is seen
            out.flush()
            termios.tcsetattr(stdin.fileno(), termios.TCSADRAIN, before)
        except (OSError, termios.error):
            pass  # it is gone


@contextmanager
def redirect_prints(show: Callable[[str], None]) -> Iterator[None]:
    """Show what anything else in this process prints meanwhile, whole lines at a time, so that it tears nothing."""
    lines = _LineWriter(show)
    with redirect_stdout(lines), redirect_stderr(lines):
        try:
            yield
        finally:
            lines.flush_rest()


def read_typed_ahead(keyboard: Input, stdin: TextIO) -> list[KeyPress]:
    """Return the keys that were pressed before a terminal became raw; until then each Enter ended a line."""
    from prompt_toolkit.input.typeahead import get_typeahead
    from prompt_toolkit.input.vt100_parser import Vt100Parser

    typed = b""
    while select.select([stdin], [], [], 0)[0] and (more := os.read(stdin.fileno(), _AT_ONCE)):
        typed += more
    keys = get_typeahead(keyboard)  # of an earlier question
    Vt100Parser(keys.append).feed_and_flush(typed.decode(stdin.encoding, "replace").replace("\n", "\r"))
    return keys


def suspend() -> None:
    """Let the shell have the terminal until the person continues the program (`fg`)."""
    from prompt_toolkit.application import run_in_terminal

    run_in_terminal(_stop)


def _stop() -> None:
    os.kill(0, signal.SIGTSTP)
    time.sleep(_STOPPING)  # this thread may be the last to stop, and must not make the terminal raw again before


class _LineWriter(TextIOBase):
    """A file whose lines are shown."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._rest = ""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        if lines:
            self._show("\n".join(lines))
        return len(text)

    def flush_rest(self) -> None:
        """Show a last line that did not end."""
        if self._rest:
            self.write("\n")
