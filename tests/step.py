"""Run a command of the Makefile that takes its time: what it does, for how long, and what it printed last, in one line.

    python tests/step.py "installing Bub" pip install .

What it printed is shown as a whole if it fails. A pipe gets a line every second or two.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
import time

PAUSE = 0.1
PACE = 1.5
"""Seconds between two lines of a pipe, so that nothing is silent for two."""

BYTES = re.compile(r"Progress (\d+) of (\d+)")


class Output(threading.Thread):
    """Reads what a command prints, to the end."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        super().__init__(daemon=True)
        self.process = process
        self.lines: list[str] = []
        self.news = ""

    def run(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            done = BYTES.match(line)
            if done is not None:
                self.news = f"{int(done[1]) / 1e6:.1f} of {int(done[2]) / 1e6:.1f} MB"
                continue
            self.lines.append(line)
            if line.strip() and not line.startswith("WARNING"):
                self.news = " ".join(line.split())


def main() -> int:
    what, *command = sys.argv[1:]
    begun = due = time.monotonic()
    is_terminal = sys.stderr.isatty()
    # It is not asked for anything: a question that nobody sees would be a silence.
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = subprocess.Popen(command, text=True, errors="replace", **pipes)  # type: ignore[call-overload]
    output = Output(process)
    output.start()
    while output.is_alive():
        now = time.monotonic()
        text = f"{what}: {now - begun:.0f} s {output.news}"
        if is_terminal:
            print(f"\r{text[: shutil.get_terminal_size().columns - 1]}\x1b[K", end="", file=sys.stderr, flush=True)
        elif now >= due:
            due = now + PACE
            print(text, file=sys.stderr, flush=True)
        output.join(PAUSE)
    code = process.wait()
    clear = "\r\x1b[K" if is_terminal else ""
    print(f"{clear}{what}: {'done' if code == 0 else 'failed'} in {time.monotonic() - begun:.0f} s", file=sys.stderr)
    if code != 0:
        print("".join(output.lines), end="", file=sys.stderr)
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
