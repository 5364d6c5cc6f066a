"""Runtime events: what an agent did, as lines of JSON in the workspace, beside what the tape keeps (BEHAVIOURS P26)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import trio

from bub.log import log_exception, log_warning
from bub.tape import Tape, TapeEntry

FOLDER = Path(".bub", "runtime")
"""The folder that they are kept in, below the workspace."""


def are_kept(settings: Mapping[str, Any]) -> bool:
    """Whether the setting `tapes.runtime_events` wants them."""
    section = settings.get("tapes")
    return isinstance(section, Mapping) and section.get("runtime_events") is True


def events_file(workspace: Path, session_id: str) -> Path:
    """The file with the runtime events of a session."""
    digest = hashlib.md5(session_id.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    return workspace / FOLDER / f"{digest[:16]}.jsonl"


@dataclass(frozen=True, slots=True)
class EventfulTape(Tape):
    """A tape whose answers, commands and anchors are written to the `events` file, too, once the tape has them.

    A file that cannot be written is logged, and breaks no turn.
    """

    events: Path = Path()

    async def append(self, *entries: TapeEntry) -> None:
        await Tape.append(self, *entries)
        told = [event for event in map(_event_of, entries) if event is not None]
        if told:
            try:
                await trio.to_thread.run_sync(_write, self.events, told)
            except OSError as error:
                log_exception("runtime_events.write_failed", error, file=self.events)

    def sidecar(self, name: str) -> Tape:
        return Tape(self.name, self.store).sidecar(name)


def _event_of(entry: TapeEntry) -> dict[str, Any] | None:
    """What an entry is as a runtime event; None where it is none."""
    about = {"date": entry.date}
    if entry.kind == "anchor":
        return {"type": "anchor", **about, **entry.payload}
    if entry.kind == "error":
        return {"type": "model", **about, "status": "error", "error": entry.payload}
    name, data = entry.payload.get("name"), entry.payload.get("data") or {}
    if entry.kind == "event" and name in _TYPES:
        return {"type": _TYPES[name], **about, **data}
    return None


_TYPES = {"run": "model", "command": "command"}
"""The events of a tape that are runtime events, and their type."""


def _write(file: Path, events: Iterable[dict[str, Any]]) -> None:
    if file.parent.resolve() != file.parents[2].resolve() / FOLDER:
        log_warning("runtime_events.elsewhere", folder=file.parent)  # a link of the workspace leads somewhere else
        return
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lines = b"".join(msgspec.json.encode(event, enc_hook=str) + b"\n" for event in events)
    opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        os.write(opened, lines)
    finally:
        os.close(opened)
