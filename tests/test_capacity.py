"""How many turns run at once: as many as open files and memory allow."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from bub.runtime.capacity import LEAST_TURNS, MOST_TURNS, count_turns_that_fit

COUNT = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
from bub.runtime.capacity import allow_open_files, count_turns_that_fit
{first}
print(count_turns_that_fit(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def count(soft: int, hard: int, first: str = "") -> list[int]:
    """Turns that fit into a process with these limits, and its limit of open files."""
    code = COUNT.format(soft=soft, hard=hard, first=first)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [int(word) for word in done.stdout.split()]


@pytest.mark.parametrize(("files", "turns"), [(528, 100), (64, LEAST_TURNS)])
def test_open_files_bound_how_many_turns_run(files: int, turns: int) -> None:
    assert count(files, files) == [turns, files]


def test_a_server_takes_as_many_files_as_the_system_lets_it() -> None:
    assert count(64, 528, "allow_open_files()") == [100, 528]


def test_whoever_may_open_more_keeps_it() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert count(hard, hard, "allow_open_files()")[1] == hard


@pytest.mark.parametrize(("limit", "turns"), [("1073741824", 256), ("max", None), ("1", LEAST_TURNS)])
def test_memory_bounds_it_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, turns: int | None
) -> None:
    file = tmp_path / "memory.max"
    file.write_text(limit, encoding="ascii")
    monkeypatch.setattr("bub.runtime.capacity._most_open_files", lambda: 10**9)
    monkeypatch.setattr("bub.runtime.capacity._LIMITS_OF_A_CONTAINER", ())
    of_the_machine = count_turns_that_fit()
    assert LEAST_TURNS <= of_the_machine <= MOST_TURNS
    monkeypatch.setattr("bub.runtime.capacity._LIMITS_OF_A_CONTAINER", (str(file), "/nowhere/at/all"))
    assert count_turns_that_fit() == (of_the_machine if turns is None else min(turns, of_the_machine))
