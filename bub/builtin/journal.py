"""What a turn writes to its session's tape, held back until something happens that must not be lost."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import trio

from bub.log import log_exception
from bub.tape import Tape, TapeEntry

WRITING_PATIENCE = 20.0
"""How long, in seconds, a turn that is being cancelled may take to write what has happened."""


class Journal:
    """The entries of one turn. `tape` is None where the session has none; then nothing is kept.

    `cover` takes the secrets out of what is written. Entries are written together: before a tool runs, since what it
    does may be the last thing this process sees, and at the end of the turn.
    """

    def __init__(self, tape: Tape | None, cover: Callable[[Any], Any]) -> None:
        self._tape = tape
        self._cover = cover
        self._entries: list[TapeEntry] = []

    def note(self, *entries: TapeEntry) -> None:
        """Hold entries for the next writing."""
        if self._tape is not None:
            self._entries += entries

    def event(self, name: str, /, **data: Any) -> None:
        """Hold an event."""
        self.note(TapeEntry.event(name, data))

    async def note_system(self, system: str) -> None:
        """Hold the system prompt, unless the tape has just this one already: it is kept once, not at every turn."""
        if self._tape is None or not system:
            return
        digest = hashlib.sha256(system.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        known = await self._tape.fetch(self._tape.query().kinds("system").newest().limit(1))
        if not known or known[0].meta.get("hash") != digest:
            self.note(TapeEntry.system(system, hash=digest))

    async def write(self) -> None:
        """Write what is held, as one transaction."""
        if self._tape is None or not self._entries:
            return
        entries, self._entries = self._entries, []
        await self._tape.append(*[replace(entry, payload=self._covered(entry.payload)) for entry in entries])

    async def write_last(self) -> None:
        """Write what is held whatever is cancelled, within `WRITING_PATIENCE`; a failure is logged."""
        with trio.CancelScope(shield=True, deadline=trio.current_time() + WRITING_PATIENCE):
            try:
                await self.write()
            except Exception as error:  # noqa: BLE001 (it must not mask how the turn ended)
                log_exception("tape.write_failed", error)

    def _covered(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._cover(value) for name, value in payload.items()}
