"""What a turn writes to its session's tape, held back until something happens that must not be lost."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import trio

from bub.agent.models.parts import name_part, text_part
from bub.errors import TapeError
from bub.log import log_exception
from bub.tape import Tape, TapeEntry
from bub.tape.context import MEDIA
from bub.tape.entry import THOUGHTS
from bub.tape.media import keep_media, size_of

WRITING_PATIENCE = 20.0
"""How long, in seconds, writing may take, whoever wants to leave meanwhile."""


_LONGEST_ADDRESS = 10_000


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

    async def note_message(self, message: dict[str, Any], **meta: Any) -> None:
        """Hold a message: what is no text is named in it, and kept beside the tape."""
        if self._tape is None:
            return
        content = message["content"]
        parts = {} if isinstance(content, str) else dict(enumerate(content))
        kept = await self.keep({place: part for place, part in parts.items() if part.get("type") != "text"})
        self.note(TapeEntry.message(without_media(message), **meta, **({MEDIA: kept} if kept else {})))

    async def keep(self, parts: Mapping[int, dict[str, Any]]) -> list[dict[str, Any]]:
        """Keep parts of a message, by their places in it, beside the tape, and return where they lie."""
        if self._tape is None or not parts:
            return []
        try:
            return await keep_media(self._tape, {place: self._cover_part(part) for place, part in parts.items()})
        except TapeError as error:  # what lies beside the tape never breaks a turn (P21)
            log_exception("tape.media_failed", error, tape=self._tape.name)
            return []

    async def keep_shown(self, parts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Keep what a tool has shown, and return where it lies, each with its place behind the text and its name."""
        placed = dict(enumerate(parts, start=1))
        return [{**each, "line": name_part(placed[each["place"]])} for each in await self.keep(placed)]

    async def note_system(self, system: str) -> None:
        """Hold the system prompt, unless it is behind the last anchor already: it is kept once, not at every turn.

        What came before the anchor is not looked through, however long it is.
        """
        if self._tape is None or not system:
            return
        digest = hashlib.sha256(system.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        try:
            known = await self._tape.fetch(self._tape.query().last_anchor().kinds("system").newest().limit(1))
        except TapeError as error:
            if error.reason != "not_found":
                raise
            known = []  # a tape from elsewhere, without an anchor
        if not known or known[0].meta.get("hash") != digest:
            self.note(TapeEntry.system(system, hash=digest))

    async def write(self) -> None:
        """Write what is held, as one transaction where the store has them.

        No cancellation comes between, so that nothing is lost or written twice. Raises TapeError when the store
        cannot write, which is tried again with the next writing, or takes longer than `WRITING_PATIENCE`.
        """
        if self._tape is None:
            return
        at_once = len(self._entries) if hasattr(self._tape.store, "extend") else 1
        with trio.CancelScope(shield=True, deadline=trio.current_time() + WRITING_PATIENCE) as scope:
            while self._entries:
                await self._tape.append(*map(self._cover_entry, self._entries[:at_once]))
                del self._entries[:at_once]
        if scope.cancelled_caught:
            self._entries.clear()  # perhaps they are written: once too often would be worse
            raise TapeError(f"the tape could not be written within {WRITING_PATIENCE:g} s", reason="unavailable")

    async def write_last(self) -> None:
        """Write what is held at the end of a turn that ends early; a failure is logged."""
        try:
            await self.write()
        except Exception as error:  # noqa: BLE001 (it must not mask how the turn ended)
            log_exception("tape.write_failed", error)

    def _cover_part(self, part: dict[str, Any]) -> Any:
        # What is longer is the thing itself and no address, which can hold a secret.
        return self._cover(part) if size_of(part) <= _LONGEST_ADDRESS else part

    def _cover_entry(self, entry: TapeEntry) -> TapeEntry:
        payload = {name: self._cover(value) for name, value in entry.payload.items()}
        thoughts = payload.get(THOUGHTS)
        if thoughts and thoughts != entry.payload[THOUGHTS]:
            thoughts.pop("blocks", None)  # their provider refuses any that was changed
        return replace(entry, payload=payload)


def without_media(message: dict[str, Any]) -> dict[str, Any]:
    """A message as the tape keeps it: what is no text is named, not stored (BEHAVIOURS P19)."""
    content = message["content"]
    if isinstance(content, str):
        return message
    parts = [part if part.get("type") == "text" else text_part(name_part(part)) for part in content]
    return {**message, "content": parts}
