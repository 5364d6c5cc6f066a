"""What the turns of one framework share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from bub.errors import TapeError
from bub.log import log_exception, log_warning
from bub.runtime.capacity import count_turns_that_fit
from bub.runtime.generations import Generation, Loaded
from bub.runtime.result import TurnResult
from bub.runtime.sessions import Sessions
from bub.runtime.snapshot import Profile
from bub.tape.settings import PERSONALITY, session_settings
from bub.tape.tape import Tape, tape_name


class Watcher(Protocol):
    """Who watches turns. Both are called in between, so they must not wait, and what they raise is only logged."""

    def turn_began(self, turn: Any) -> None:
        """See that a turn has begun: its message is there, its session is yet to be found."""

    def turn_ended(self, turn: Any) -> None:
        """See that a turn is over: it has an `outcome`, and, until this returns, the `error` that it failed with."""


class TurnHost:
    """What the turns of one framework share: what is `loaded`, the `workspace`, and the sessions they wait for.

    `last_result` is the result of the turn that ended last. `under_way` are the turns that are not over, those that
    wait included, in the order they began; `watchers` see them come and go.
    """

    def __init__(self, loaded: Loaded, workspace: Path) -> None:
        self.last_result: TurnResult | None = None
        self.under_way: dict[Any, None] = {}
        self.watchers: tuple[Watcher, ...] = ()
        self.loaded = loaded
        self.workspace = workspace
        self.sessions = Sessions(count_turns_that_fit())

    @contextmanager
    def watch(self, watcher: Watcher) -> Iterator[None]:
        """Let somebody see each turn that begins and ends until the block is left."""
        self.watchers = (*self.watchers, watcher)
        try:
            yield
        finally:
            self.watchers = tuple(one for one in self.watchers if one is not watcher)

    def note_begin(self, turn: Any) -> None:
        """Note that a turn has begun."""
        self.under_way[turn] = None
        for watcher in self.watchers:
            try:
                watcher.turn_began(turn)
            except Exception as error:  # noqa: BLE001 (who only watches does not change the answer)
                log_exception("turn.watcher_failed", error)

    def note_end(self, turn: Any) -> None:
        """Note that a turn is over."""
        if turn not in self.under_way:
            return
        del self.under_way[turn]
        for watcher in self.watchers:
            try:
                watcher.turn_ended(turn)
            except Exception as error:  # noqa: BLE001 (as above)
                log_exception("turn.watcher_failed", error)

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
