"""The commands of `bash`: what confines them on this machine, and which programs they do not see then."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from bub.agent.confine.machine import choose_way, find_ways
from bub.agent.confine.walls import UnconfinableError, Walls, build_walls
from bub.doctor.checks import Check, Patient, in_thread, merge_profiles

SUBJECT = "commands"


async def look_at_commands(patient: Patient) -> Sequence[Check]:
    """Check what confines the commands of each profile that can get a turn, and what could confine them."""
    if patient.unloaded:
        return [await in_thread(_look_at_machine)]
    told = [(one.seen.profile, await in_thread(lambda: _look_at_profile(one))) for one in patient.in_each_profile()]  # noqa: B023
    return merge_profiles(told)


def _look_at_machine() -> Check:
    ways, lacks = find_ways()
    if ways:
        return Check(SUBJECT, "ok", f"Bub could enforce a `reach` with {next(iter(ways))}")
    return Check(SUBJECT, "ok", f"Bub could not enforce a `reach`: {'; '.join(lacks)}")


def _look_at_profile(patient: Patient) -> Check:
    seen = patient.seen
    if seen.confinement is None:
        machine = _look_at_machine()
        return Check(SUBJECT, "ok", f"they reach everything that you reach; {machine.message}")
    try:
        walls = build_walls(seen.confinement, patient.workspace, seen.own_files, patient.environ)
        way = choose_way(walls)
    except UnconfinableError as error:
        advice = "install bubblewrap, or change `reach` of the profile"
        return Check(SUBJECT, "broken", f"Bub cannot confine them: {error}", advice)
    unseen = ", ".join(_unseen(walls, patient.environ.get("PATH", os.defpath)))
    shut = f"; they see no program in {unseen}, of PATH" if unseen else ""
    return Check(SUBJECT, "ok", f"{way} confines them to what `reach` lists{shut}")


def _unseen(walls: Walls, path: str) -> Iterator[str]:
    """Yield the folders of `PATH` that are there and that no confined command may read."""
    seen = (*walls.programs, *walls.read, *walls.write)
    for folder in dict.fromkeys(path.split(os.pathsep)):
        real = Path(os.path.realpath(folder))
        if folder and real.is_dir() and not any(real.is_relative_to(root) for root in seen):
            yield folder
