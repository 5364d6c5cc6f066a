"""The marks of a session: kept beside its tape until that is reset, whatever anchors are set meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bub.agent.marks.marks import Marks, untrusted
from bub.approval import Approvers
from bub.base.surfaces import Surface, Writer
from bub.tape import Tape, TapeEntry

MARKS = "marks"
"""The sidecar that they are kept in, and the name of its events."""

_MOST_READ = 100
"""How many entries are read: there are fewer, for one that adds nothing is not written."""


class SessionMarks:
    """What the context of one run holds by `now`.

    `tape` is the session's, None if it leaves nothing behind. What a sub-agent reads, its caller `above` has read, too,
    and the other way round. One that does not `keep` is for commands, whose results no model gets.
    """

    def __init__(self, tape: Tape | None, above: SessionMarks | None = None, *, keep: bool = True) -> None:
        self.now = Marks()
        self._tape = tape.sidecar(MARKS) if tape is not None else None
        self._above = above
        self._keep = keep

    async def recall(self) -> None:
        """Read what earlier turns have left. Raises `TapeError` if that cannot be read."""
        if self._tape is not None:
            for entry in await self._tape.fetch(self._tape.query().limit(_MOST_READ)):
                self.now |= msgspec.convert(entry.payload.get("data"), Marks)
        if self._above is not None:
            inherited, own = self._above.now, self.now
            await self._above.add(own)
            await self.add(inherited)

    async def add(self, marks: Marks) -> None:
        """Note marks before what carries them comes into the context. Raises `TapeError` if they cannot be kept."""
        both = self.now | marks
        if both != self.now:
            if self._tape is not None and self._keep:
                await self._tape.append(TapeEntry.event(MARKS, msgspec.to_builtins(marks)))
            self.now = both
        if self._above is not None:
            await self._above.add(marks)


def marks_of_writers(writers: Sequence[Writer], approvers: Approvers) -> Marks:
    """Return the marks of messages: whoever is neither the operator nor an approver may be anybody.

    What a schedule of the file says, the operator wrote.
    """
    marks = Marks()
    for writer in writers:
        if writer.surface.is_operator or writer.surface is Surface.SCHEDULE:
            continue
        if writer.surface is not Surface.CHANNEL or (writer.channel, writer.id) not in approvers:
            who = f" from {writer.id}" if writer.id else ""
            marks |= untrusted(f"a message{who} on {writer.channel}", is_message=True)
    return marks
