"""Prints the table of the scenarios; `python -m tests.scenarios --write` puts it on its page."""

from __future__ import annotations

import os
import sys
from tempfile import TemporaryDirectory

from loguru import logger

from tests.scenarios.play import table, write

if __name__ == "__main__":
    logger.remove()
    with TemporaryDirectory() as home:
        os.environ["BUB_HOME"] = home
        if "--write" in sys.argv[1:]:
            write()
        else:
            sys.stdout.write(table())
