"""Running `bub` as its users do: a process of its own, in a folder, with nothing of the machine's settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

SOURCES = os.pathsep.join((str(ROOT), str(ROOT / "plugins")))
"""The `PYTHONPATH` of every process that a test starts: Bub and the plugins come from this checkout."""


def bub(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What `bub ARGUMENTS` prints in a folder, on a terminal's width of 80 cells unless `COLUMNS` says another."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("BUB_") or name == "BUB_HOME"}
    told = {"NO_COLOR": "1", "COLUMNS": "80", "PYTHONPATH": SOURCES, "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        [sys.executable, "-m", "bub", *arguments],
        cwd=folder,
        env={**own, **told, **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )
