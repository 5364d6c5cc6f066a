"""What a turn pays for 200 skills while none of them changes, against a bare stat of each file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from bub.agent.skills import Root, Skills

SKILLS, ROUNDS, TURNS = 200, 15, 20
TEXT = "---\nname: {name}\ndescription: How work of kind {name} is done.\n---\nDo it.\n"


def measure() -> None:
    """Print milliseconds: the first look at all skills, then what each further one takes, best of all rounds."""
    with tempfile.TemporaryDirectory() as folder:
        write_skills(Path(folder), SKILLS)
        skills = Skills([Root(Path(folder), Path(folder))])
        first = _time(skills.fragment, turns=1)
        ours, floor = [], []
        for _ in range(ROUNDS):
            ours.append(_time(skills.fragment))
            floor.append(_time(lambda: _stat_each(folder)))
    print(f"{SKILLS} skills: milliseconds, best of {ROUNDS} rounds of {TURNS} turns")
    print(f"  first look {first:.1f}   each turn {min(ours):.2f}   stat each {min(floor):.2f}")


def write_skills(folder: Path, number: int) -> None:
    """Write so many skills, each in a folder of its own."""
    for name in (f"skill-{index}" for index in range(number)):
        file = folder / name / "SKILL.md"
        file.parent.mkdir(parents=True)
        file.write_text(TEXT.format(name=name), encoding="utf-8")


def _time(work: Callable[[], object], turns: int = TURNS) -> float:
    start = perf_counter()
    for _ in range(turns):
        work()
    return (perf_counter() - start) / turns * 1e3


def _stat_each(folder: str) -> None:
    for name in os.listdir(folder):  # noqa: PTH208 (the floor)
        os.stat(f"{folder}/{name}/SKILL.md")  # noqa: PTH116 (the floor)


if __name__ == "__main__":
    measure()
