"""The program `bub`."""

from __future__ import annotations

import io
import os
import sys

from bub.cli.exits import exit_code
from bub.cli.root import command_line
from bub.locate import bub_home
from bub.log import log_to


def main() -> int:
    """Run the command line of this process and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot show a character gets its escape instead
            stream.reconfigure(errors="backslashreplace")
    return exit_code(_work)


def _work() -> int:
    log_to(bub_home(os.environ) / "logs", debug=bool(os.environ.get("BUB_DEBUG")))
    return command_line()


if __name__ == "__main__":
    sys.exit(main())
