"""A person's terminal: `bub` runs on a real one, and what it shows is a grid of letters (pyte)."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pexpect
import pyte
from fakes.command_line import SOURCES

PATIENCE = 20.0
ENTER, ALT_ENTER, TAB, UP = "\r", "\x1b\r", "\t", "\x1b[A"
BACKSPACE, LEFT = "\x7f", "\x1b[D"
CTRL_C, CTRL_D, CTRL_L, CTRL_X, CTRL_Z = "\x03", "\x04", "\x0c", "\x18", "\x1a"


def paste(text: str) -> str:
    """A text as terminals send one that is pasted."""
    return f"\x1b[200~{text}\x1b[201~"


class Sitting:
    """A person at a terminal of `columns` and `rows`, in front of `bub ARGUMENTS`, which a shell runs if `in_shell`.

    `program` is another `bub` than that of the tests.
    """

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        columns: int = 80,
        rows: int = 24,
        in_shell: bool = False,
        program: Sequence[str] = (sys.executable, "-m", "bub"),
        **environment: str,
    ) -> None:
        own = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
        told = {"TERM": "xterm-256color", "PYTHONPATH": SOURCES, "PYTHONIOENCODING": "utf-8"}
        self.raw = ""
        self._is_xterm, self._is_tmux = "XTERM_VERSION" in environment, "TMUX" in environment
        self._screen = pyte.HistoryScreen(columns, rows, history=1000, ratio=0.5)
        self._stream = pyte.Stream(self._screen)
        command = [*program, *arguments]
        started = ["bash", "--norc", "--noprofile", "-i"] if in_shell else command
        self.process = pexpect.spawn(
            started[0],
            started[1:],
            cwd=str(folder),
            env={**own, **told, "PS1": "$ ", **environment},
            dimensions=(rows, columns),
            encoding="utf-8",
            codec_errors="replace",
            timeout=PATIENCE,
        )
        self.process.delaybeforesend = None
        self.before = termios.tcgetattr(self.process.child_fd)
        if in_shell:
            self.say(shlex.join(command))

    def __enter__(self) -> Sitting:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.isalive():
            self.process.kill(signal.SIGKILL)
            self.process.wait()
        self.process.ptyproc.delayafterclose = 0
        self.process.close()

    # What is seen.

    @property
    def rows(self) -> list[str]:
        """The rows that are on the screen, without the empty ones at its end."""
        rows = [row.rstrip() for row in self._screen.display]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    @property
    def timeless(self) -> list[str]:
        """The rows with each time as `0.0 s`, and what turns as `*`."""
        rows = (re.sub(r"\b\d+\.\d s", "0.0 s", row) for row in self.rows)
        return [re.sub(r"^[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏] ", "* ", row) for row in rows]

    @property
    def scrolled(self) -> list[str]:
        """What has left the screen at its top, and then what is on it."""
        lines = self._screen.history.top
        above = ["".join(line[at].data for at in range(self._screen.columns)).rstrip() for line in lines]
        return [*above, *self.rows]

    @property
    def letters(self) -> list[list[pyte.screens.Char]]:
        """The letters of each row, with their looks; what has left the screen is first."""
        rows = [*self._screen.history.top, *(self._screen.buffer[at] for at in range(self._screen.lines))]
        return [[row[at] for at in range(self._screen.columns)] for row in rows]

    @property
    def text(self) -> str:
        """What is on the screen and above it, as one text."""
        return "\n".join(self.scrolled)

    def colour_of(self, text: str) -> str:
        """The colour of the first letter of a text on the screen."""
        for number, row in enumerate(self._screen.display):
            if text in row:
                return str(self._screen.buffer[number][row.index(text)].fg)
        raise AssertionError(f"{text!r} is not on the screen:\n{self.text}")

    def see(self, text: str | Callable[[str], bool]) -> None:
        """Wait until a text is on the screen or above it."""
        seen = text if callable(text) else lambda shown: text in shown
        end = time.monotonic() + PATIENCE
        while not seen(self.text):
            if time.monotonic() > end or not self._read():
                raise AssertionError(f"{text!r} is not to be seen:\n{self.text}")

    def see_prompt(self, sign: str = "> ") -> None:
        """Wait until the line is empty and nothing is under way."""
        self.see(lambda _: len(self.rows) > 1 and self.rows[-2:] == ["", sign.rstrip()])

    def _read(self, patience: float = 0.5) -> bool:
        try:
            data = self.process.read_nonblocking(65536, patience)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += data
        self._stream.feed(data)
        return True

    # What is done.

    def type(self, text: str) -> None:
        """Press keys."""
        self.process.send(text)

    def say(self, text: str) -> None:
        """Write a line and send it."""
        self.type(text + ENTER)

    def clear(self) -> None:
        """Have the line at the top of an empty screen, and forget what stood there."""
        self.type(CTRL_L)
        self.see(lambda _: self.rows == ["", ">"])
        self._screen.history.top.clear()
        self.raw = ""

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the window; rows that are longer are broken, as most terminals do, but not by an xterm."""
        self._read(0)  # what was drawn before
        if self._is_xterm:
            self._screen.resize(rows, columns)
        else:
            self._reflow(columns, rows)
        self.process.setwinsize(rows, columns)

    def _reflow(self, columns: int, rows: int) -> None:
        screen, cursor = self._screen, self._screen.cursor
        above = list(screen.history.top)
        used = screen.lines if self._is_tmux else max(len(self.rows), cursor.y + 1)  # tmux counts the empty ones
        lines = [*above, *(screen.buffer[at] for at in range(used))]
        broken: list[dict[int, pyte.screens.Char]] = []
        x, y = cursor.x, 0
        for number, line in enumerate(lines):
            if number == len(above) + cursor.y:
                x, y = cursor.x % columns, len(broken) + cursor.x // columns
            ends = [at for at in line if at < screen.columns and line[at].data != " "]
            for begin in range(0, max(ends, default=0) + 1, columns):
                broken.append({at - begin: line[at] for at in range(begin, begin + columns) if at in line})
        while len(broken) <= y:
            broken.append({})
        top = max(len(broken) - rows, 0)
        screen.resize(rows, columns)
        screen.history.top.clear()
        screen.buffer.clear()
        for number, row in enumerate(broken):
            line = pyte.screens.StaticDefaultDict(screen.default_char)
            line.update(row)
            if number < top:
                screen.history.top.append(line)
            else:
                screen.buffer[number - top] = line
        cursor.x, cursor.y = x, y - top

    def leave(self, key: str = CTRL_D) -> int:
        """Leave, and see that the terminal is as it was; the exit code."""
        self.type(key)
        return self.end()

    def end(self) -> int:
        """Wait for the end, and see that the terminal is as it was; the exit code."""
        end = time.monotonic() + PATIENCE
        while self._read():
            assert time.monotonic() < end, self.text
        after = termios.tcgetattr(self.process.child_fd)
        assert after[:4] == self.before[:4]
        self.process.wait()
        assert not self._screen.cursor.hidden
        code = self.process.exitstatus
        return code if code is not None else -int(self.process.signalstatus or 0)
