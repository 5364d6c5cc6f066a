"""`bub` with another wall clock: it is ahead by the seconds in the file `AHEAD`, so that a test can move it."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from pathlib import Path

from bub.__main__ import main
from bub.gateway import serving


def _ahead() -> float:
    return time.time() + float(Path(os.environ["AHEAD"]).read_text())


if __name__ == "__main__":
    setattr(serving, "Gateway", partial(serving.Gateway, wall=_ahead))  # noqa: B010 (a class is no variable to mypy)
    sys.exit(main())
