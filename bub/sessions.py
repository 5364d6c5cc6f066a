"""Which turn runs when: one at a time in a session, in the order the messages came, and what it keeps open."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterator
from typing import Any, TypeAlias

from bub.admission import Steering
from bub.asking import Ask
from bub.envelope import Envelope
from bub.errors import BubError
from bub.lanes import Lanes
from bub.scopes import Scope, as_manager

MOST_REMEMBERED = 100_000
"""How many sessions are known to have had a turn; the one that had its last longest ago is forgotten first."""

Dispatch: TypeAlias = Callable[[Envelope], Awaitable[bool]]
"""Takes a reply of a turn to where it belongs; False where it belongs nowhere."""


class TurnUnderWay:
    """A turn that runs: the sessions it has taken or waits for, what it keeps open, and the turn it was started from.

    `lifespan` is what its message brought along to be open while it runs; what is no context manager is left alone.
    `ask` puts a question to who sent the message, None where nobody can be asked. `dispatch` takes its replies, None
    where nobody does. `steering` holds what comes while it runs, None where nothing can. `loaded` is what it runs on.
    `waits_for` holds the sessions that this turn, or one that was started from it, is waiting for.
    """

    __slots__ = (
        "above",
        "arrival",
        "ask",
        "dispatch",
        "lifespan",
        "loaded",
        "runs",
        "scope",
        "sessions",
        "steering",
        "waits_for",
    )

    def __init__(
        self,
        above: TurnUnderWay | None,
        lifespan: Any = None,
        ask: Ask | None = None,
        dispatch: Dispatch | None = None,
        steering: Steering | None = None,
    ) -> None:
        self.ask: Ask | None = ask
        self.dispatch: Dispatch | None = dispatch
        self.steering: Steering | None = steering
        self.loaded: Any = None
        self.runs: bool = True
        self.above: TurnUnderWay | None = above if above is not None and above.runs else None
        self.lifespan = as_manager(lifespan) if lifespan is not None else None
        self.arrival: str | None = None
        self.sessions: tuple[Hashable, ...] = ()
        self.waits_for: list[Hashable] = []
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
        self._lanes = Lanes(limit)
        self._holders: dict[Hashable, TurnUnderWay] = {}
        self._seen: OrderedDict[str, None] = OrderedDict()

    async def arrive(self, turn: TurnUnderWay, origin: str) -> None:
        """Get in line behind the messages that came before from the same place."""
        if not self._arrivals.enter_now(origin):
            await self._arrivals.enter(origin)
        turn.arrival = origin

    async def join(self, turn: TurnUnderWay, session_id: str, *, alone: bool = True) -> str:
        """Wait until a session is free and take it for this turn; says whether it is "new" or "known".

        A turn that need not be `alone` in its session waits only for room. One that somebody's turn has started does
        not wait for room, since that one waits for it already. Raises `BubError` where the wait could never end.
        """
        lane: Hashable = session_id if alone else turn
        if lane not in turn.sessions:
            if not self._lanes.enter_now(lane, beyond=turn.above is not None):
                await self._wait(turn, lane)
            self._holders[lane] = turn
            turn.sessions = (*turn.sessions, lane)
        if turn.arrival is not None:
            self._arrivals.leave(turn.arrival)
            turn.arrival = None
        if turn.lifespan is not None:
            await turn.open_lifespan()
        return self._remember(session_id)

    def _remember(self, session_id: str) -> str:
        if session_id in self._seen:
            self._seen.move_to_end(session_id)
            return "known"
        self._seen[session_id] = None
        if len(self._seen) > MOST_REMEMBERED:
            self._seen.popitem(last=False)
        return "new"

    async def _wait(self, turn: TurnUnderWay, lane: Hashable) -> None:
        """Wait for a session, unless whoever has it waits, in the end, for this turn."""
        waiting = tuple(turn.chain())
        asked, seen = [lane], set[Hashable]()
        while asked:
            wanted = asked.pop()
            holder = self._holders.get(wanted)
            if holder is None or wanted in seen:
                continue
            seen.add(wanted)
            if holder in waiting:
                raise BubError(
                    f"a turn cannot wait for another turn of the same session: `{lane}` waits for this one",
                    help="start it once that turn is over, or in a session of its own",
                )
            asked += holder.waits_for
        for one in waiting:
            one.waits_for.append(lane)
        try:
            await self._lanes.enter(lane, beyond=turn.above is not None)
        finally:
            for one in waiting:
                one.waits_for.remove(lane)

    def leave(self, turn: TurnUnderWay) -> None:
        """Give back what a turn has taken, so that the next ones can go on."""
        turn.runs = False
        for lane in turn.sessions:
            del self._holders[lane]
            self._lanes.leave(lane)
        turn.sessions = ()
        if turn.arrival is not None:
            self._arrivals.leave(turn.arrival)
            turn.arrival = None
