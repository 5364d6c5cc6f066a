"""Which turn runs when: one at a time in a session, in the order the messages came, and what it keeps open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bub.asking import Ask
from bub.errors import BubError
from bub.lanes import Lanes
from bub.scopes import Scope, as_manager


class TurnUnderWay:
    """A turn that runs: the sessions it has taken or waits for, what it keeps open, and the turn it was started from.

    `lifespan` is what its message brought along to be open while it runs; what is no context manager is left alone.
    `ask` puts a question to who sent the message, None where nobody can be asked.
    `waits_for` holds the sessions that this turn, or one that was started from it, is waiting for.
    """

    __slots__ = ("above", "arrival", "ask", "lifespan", "runs", "scope", "sessions", "waits_for")

    def __init__(self, above: TurnUnderWay | None, lifespan: Any = None, ask: Ask | None = None) -> None:
        self.ask: Ask | None = ask
        self.runs: bool = True
        self.above: TurnUnderWay | None = above if above is not None and above.runs else None
        self.lifespan = as_manager(lifespan) if lifespan is not None else None
        self.arrival: str | None = None
        self.sessions: tuple[str, ...] = ()
        self.waits_for: list[str] = []
        self.scope: Scope | None = None

    def chain(self) -> Iterator[TurnUnderWay]:
        """This turn, the one it was started from, and so on."""
        turn: TurnUnderWay | None = self
        while turn is not None:
            yield turn
            turn = turn.above

    def open(self) -> Scope:
        """The scope of what is closed with the turn."""
        if self.scope is None:
            self.scope = Scope()
        return self.scope

    async def open_lifespan(self) -> None:
        """Open what the message brought along, once (BEHAVIOURS T23)."""
        if self.lifespan is not None:
            lifespan, self.lifespan = self.lifespan, None
            await self.open().enter(lifespan)


class Sessions:
    """Keeps the turns of one session apart, and those of different sessions side by side within `limit`.

    Messages of one origin stand in line until their session is known, so that they keep their order even where
    finding it takes time; from then on they stand in the line of their session (BEHAVIOURS T40).
    """

    def __init__(self, limit: int) -> None:
        self._arrivals = Lanes()
        self._sessions = Lanes(limit)
        self._holders: dict[str, TurnUnderWay] = {}
        self._seen: set[str] = set()

    async def arrive(self, turn: TurnUnderWay, origin: str) -> None:
        """Get in line behind the messages that came before from the same place."""
        if not self._arrivals.enter_now(origin):
            await self._arrivals.enter(origin)
        turn.arrival = origin

    async def join(self, turn: TurnUnderWay, session_id: str) -> str:
        """Wait until a session is free and take it for this turn; says whether it is "new" or "known".

        A turn that somebody's turn has started does not wait for room, since that one waits for it already. Raises
        `BubError` where the wait could never end.
        """
        if session_id not in turn.sessions:
            if not self._sessions.enter_now(session_id, beyond=turn.above is not None):
                await self._wait(turn, session_id)
            self._holders[session_id] = turn
            turn.sessions = (*turn.sessions, session_id)
        if turn.arrival is not None:
            self._arrivals.leave(turn.arrival)
            turn.arrival = None
        if turn.lifespan is not None:
            await turn.open_lifespan()
        if session_id in self._seen:
            return "known"
        self._seen.add(session_id)
        return "new"

    async def _wait(self, turn: TurnUnderWay, session_id: str) -> None:
        """Wait for a session, unless whoever has it waits, in the end, for this turn."""
        waiting = tuple(turn.chain())
        asked, seen = [session_id], set[str]()
        while asked:
            wanted = asked.pop()
            holder = self._holders.get(wanted)
            if holder is None or wanted in seen:
                continue
            seen.add(wanted)
            if holder in waiting:
                raise BubError(
                    f"a turn cannot wait for another turn of the same session: `{session_id}` waits for this one",
                    help="start it once that turn is over, or in a session of its own",
                )
            asked += holder.waits_for
        for one in waiting:
            one.waits_for.append(session_id)
        try:
            await self._sessions.enter(session_id, beyond=turn.above is not None)
        finally:
            for one in waiting:
                one.waits_for.remove(session_id)

    def leave(self, turn: TurnUnderWay) -> None:
        """Give back what a turn has taken, so that the next ones can go on."""
        turn.runs = False
        for session_id in turn.sessions:
            del self._holders[session_id]
            self._sessions.leave(session_id)
        turn.sessions = ()
        if turn.arrival is not None:
            self._arrivals.leave(turn.arrival)
            turn.arrival = None
