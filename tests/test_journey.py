"""The first hour, typed into a shell at a narrow terminal, without a dead end; `make journey` does more of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import journey
import pytest


@pytest.mark.timeout(180)  # forty commands
def test_the_first_hour_has_no_dead_end(tmp_path: Path, address: str) -> None:
    home = tmp_path / "newcomer"
    home.mkdir()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    journey.travel(home, 38, address, PATH=path, BUB_HOME=str(home / ".bub"))
