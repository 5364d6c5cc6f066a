"""The marks of files that were written from a conversation which held something, kept beside the tapes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from bub.agent.marks.marks import Marks, private, untrusted
from bub.agent.prompting.instructions import INSTRUCTIONS_FILE
from bub.agent.skills import FILE_NAME as SKILL_FILE
from bub.agent.skills import WORKSPACE_SKILLS
from bub.errors import TapeError
from bub.tape import AsyncTapeStore, Tape, TapeEntry, TapeStore
from bub.tape.tape import SIDECAR

_FILES = f"files{SIDECAR}marks"
"""The tape that they are kept in: beside that of no session, so a reset leaves it alone."""

_FILE = "file"
"""The name of its events."""

_MOST_LISTED = 10_000
"""How many notes are read to tell which files of a folder have any."""


class FileMarks:
    """The marks of files, by their real paths; if no tape is kept, none are."""

    def __init__(self, store: TapeStore | AsyncTapeStore | None) -> None:
        self._tape = Tape(_FILES, store) if store is not None else None

    async def of(self, path: Path) -> Marks:
        """Return the marks of a file; those of its last writer count. Raises `TapeError` if they cannot be read."""
        if self._tape is None:
            return Marks()
        try:
            found = await self._tape.fetch(self._tape.query().after_anchor(_key(path)).limit(1))
        except TapeError as error:
            if error.reason != "not_found":
                raise
            return Marks()
        return _marks_in(found[0]) if found else Marks()

    async def note(self, path: Path, marks: Marks) -> None:
        """Keep the marks of a file that is written now; one that never had any needs no note."""
        if self._tape is None or marks == await self.of(path):
            return
        told: dict[str, Any] = {"path": str(path), "marks": msgspec.to_builtins(marks)}
        # An anchor before each note: it is found by its name, and nothing else is read.
        await self._tape.append(TapeEntry.anchor(_key(path)), TapeEntry.event(_FILE, told))

    async def of_prompt(self, workspace: Path) -> Marks:
        """Return the marks of the files of a workspace that each system prompt holds, or names."""
        marks = Marks()
        if not await self._has_any():
            return marks
        instructions, skills = _find_prompt_files(workspace)
        if instructions is not None:
            marks |= await self.of(instructions)
        return marks | await self.shown_in(skills, SKILL_FILE) if skills is not None else marks

    async def shown_in(self, folder: Path, text: str) -> Marks:
        """Return the marks of the files below a folder that a text names by their paths or names."""
        if self._tape is None or not await self._has_any():
            return Marks()
        newest = await self._tape.search(self._tape.query().kinds("event").query(str(folder)), most=_MOST_LISTED)
        if len(newest) == _MOST_LISTED:
            what = f"{folder}, with more files from other conversations than Bub looks through"
            return private(what) | untrusted(what)
        marks, known = Marks(), set[str]()
        for entry in newest:
            path = str(entry.payload["data"]["path"])
            if path not in known and Path(path).is_relative_to(folder) and Path(path).name in text:
                marks |= _marks_in(entry)
            known.add(path)
        return marks

    async def _has_any(self) -> bool:
        return self._tape is not None and bool(await self._tape.fetch(self._tape.query().limit(1)))


def _find_prompt_files(workspace: Path) -> tuple[Path | None, Path | None]:
    """The real paths of a workspace's instructions and of the folder of its skills, of what is there."""
    instructions, skills = workspace / INSTRUCTIONS_FILE, workspace / WORKSPACE_SKILLS
    return (
        instructions.resolve() if instructions.exists() else None,
        skills.resolve() if skills.exists() else None,
    )


def _key(path: Path) -> str:
    return hashlib.sha256(str(path).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _marks_in(entry: TapeEntry) -> Marks:
    return msgspec.convert(entry.payload["data"]["marks"], Marks)
