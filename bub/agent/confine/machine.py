"""What this machine has to confine commands with, and what begins a confined command."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from bub.agent.confine import bubblewrap, landlock
from bub.agent.confine.room import Room, Rooms
from bub.agent.confine.walls import UnconfinableError, Walls, build_walls
from bub.base.confinement.value import Confinement

WAYS: Mapping[str, Any] = {"bubblewrap": bubblewrap, "Landlock": landlock}
"""The ways to confine a command, the better one first: modules that have the same functions."""


class Confined(msgspec.Struct, frozen=True):
    """How one command begins: the words before its own, what its environment needs, and the filter of system calls.

    The words name the descriptor that the filter is read from, once it is known.
    """

    way: Any
    walls: Walls
    room: Room
    environment: Mapping[str, str]

    def words(self, cwd: str, descriptor: int) -> list[str]:
        """Return the words that begin a command, with the filter at `descriptor`."""
        words: list[str] = self.way.begin(self.walls, self.room, Path(cwd), descriptor)
        return words

    def open_filter(self) -> int:
        """Return a pipe that holds the filter. Raises OSError."""
        reading, writing = os.pipe()
        try:
            os.write(writing, self.way.filter_for(self.walls))  # far less than a pipe holds
        except BaseException:  # nobody else has it yet, so nobody else closes it
            os.close(reading)
            raise
        finally:
            os.close(writing)
        return reading


def find_ways() -> tuple[Mapping[str, Any], list[str]]:
    """Return the ways that this machine has, and of each other one why it has not."""
    lacks = {name: way.find_lack() for name, way in WAYS.items()}
    return {name: WAYS[name] for name, lack in lacks.items() if not lack}, [lack for lack in lacks.values() if lack]


def choose_way(walls: Walls) -> str:
    """Return the name of the best way that can build all walls. Raises `UnconfinableError` that says what lacks."""
    ways, lacks = find_ways()
    for name, way in ways.items():
        gap = way.find_gap(walls)
        if not gap:
            return name
        lacks.append(gap)
    raise UnconfinableError("; ".join(lacks))


def confine(
    confinement: Confinement,
    rooms: Rooms,
    session_id: str,
    *,
    workspace: Path,
    own_files: Iterable[Path],
    environ: Mapping[str, str],
) -> Confined:
    """Make ready what a command of a session needs. Raises `UnconfinableError`, and OSError for a full disk."""
    walls = build_walls(confinement, workspace, own_files, environ)
    way = WAYS[choose_way(walls)]
    room = rooms.of(session_id)
    way.furnish(walls, room)
    return Confined(way, walls, room, way.environment(room))
