"""What `bub validate --plugins` finds in a saved file: it imports plugins, so it runs in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import trio

from bub.base.diagnostics import Diagnostic, Position, Range, Related

_PATIENCE = 60.0
"""Seconds that a proof may take: it runs the code of others."""


async def prove(path: Path, file: str) -> list[Diagnostic]:
    """Return what is found in a saved file with its plugins; `file` is what the findings call it.

    Nothing, if the proof ends with no report or takes too long.
    """
    command = [sys.executable, "-m", "bub", "validate", str(path), "--plugins", "--pedantic", "--format", "json"]
    with trio.move_on_after(_PATIENCE):
        done = await trio.run_process(
            command, capture_stdout=True, stderr=subprocess.DEVNULL, check=False, cwd=path.parent
        )
        try:
            found = json.loads(done.stdout)["diagnostics"]
        except (ValueError, KeyError, TypeError):
            return []  # it said why on standard error, which is nothing that an editor shows
        return [_read_finding(one, file if path.parent / one["file"] == path else one["file"]) for one in found]
    return []


def _read_finding(said: dict[str, Any], file: str) -> Diagnostic:
    related = (Related(other["message"], other["file"], _read_range(other["range"])) for other in said["related"])
    return Diagnostic(
        said["code"],
        said["severity"],
        said["message"],
        file,
        _read_range(said["range"]),
        said["path"],
        said["profile"],
        said["help"],
        said["fix"],
        tuple(related),
    )


def _read_range(said: dict[str, dict[str, int]]) -> Range:
    start, end = said["start"], said["end"]
    return Range(Position(start["line"], start["column"]), Position(end["line"], end["column"]))
