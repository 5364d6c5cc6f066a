"""What the turns of one framework share."""

from __future__ import annotations

from pathlib import Path

from bub.errors import TapeError
from bub.log import log_exception, log_warning
from bub.runtime.capacity import count_turns_that_fit
from bub.runtime.generations import Generation, Loaded
from bub.runtime.result import TurnResult
from bub.runtime.sessions import Sessions
from bub.runtime.snapshot import Profile
from bub.tape.settings import PERSONALITY, session_settings
from bub.tape.tape import Tape, tape_name


class TurnHost:
    """What the turns of one framework share: what is `loaded`, the `workspace`, and the sessions they wait for.

    `last_result` is what the turn that ended last came to.
    """

    def __init__(self, loaded: Loaded, workspace: Path) -> None:
        self.last_result: TurnResult | None = None
        self.loaded = loaded
        self.workspace = workspace
        self.sessions = Sessions(count_turns_that_fit())

    async def chosen_by(self, session_id: str, generation: Generation, routed: Profile) -> Profile:
        """The profile that a session has chosen (`personality_switched`), else the one its message is routed to."""
        store = self.loaded.tape_store
        if store is None:
            return routed
        try:
            name = (await session_settings(Tape(tape_name(self.workspace, session_id), store))).get(PERSONALITY)
        except TapeError as error:
            log_exception("personality.unreadable", error, session=session_id)
            return routed
        if name and name not in generation.profiles:
            log_warning("personality.unknown", session=session_id, personality=name, profile=routed.name)
        return generation.profiles.get(str(name), routed) if name else routed

    async def has_tape(self, session_id: str) -> bool:
        """Whether something is on the tape of a session."""
        store = self.loaded.tape_store
        if store is None:
            return False
        tape = Tape(tape_name(self.workspace, session_id), store)
        return bool(await tape.fetch(tape.query().limit(1)))
