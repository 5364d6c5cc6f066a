"""What the tape says of calls that the end of the process cut short, before their turn is taken again."""

from __future__ import annotations

from bub.approval import CallNotes
from bub.tape import Tape, TapeEntry

NOT_RUN = "not run: the process ended while this was waiting for a person's yes"


async def note_interrupted(tape: Tape, notes: CallNotes | None) -> None:
    """Give a result to the calls that surely did not run; the outcome of a call that had begun stays unknown."""
    earlier = notes.earlier if notes is not None else ()
    begun = {call.call_id for call in earlier if call.has_begun}
    waiting = {call.call_id: call.tool for call in earlier if not call.has_begun and call.call_id not in begun}
    if waiting:
        said = [{"id": key, "name": name, "content": NOT_RUN, "is_error": True} for key, name in waiting.items()]
        await tape.append(TapeEntry.tool_result(said))
