"""Which turn runs when: one at a time in a session, in the order the messages came, and what it keeps open."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from typing import Any, TypeAlias

from bub.approval import Ask, CallNotes
from bub.base.clients.request import ClientRequest
from bub.base.scopes import Scope, as_manager
from bub.base.surfaces import Writer
from bub.base.waiting import MovingDeadline
from bub.envelope import Envelope, field_of
from bub.errors import BubError
from bub.hooks.admission import Steering
from bub.hooks.facts import SESSION
from bub.runtime.lanes import Lanes, Ticket
from bub.streaming import StreamEvent

MOST_REMEMBERED = 100_000
"""How many sessions are known to have had a turn; the one that had its last longest ago is forgotten first."""

Dispatch: TypeAlias = Callable[[Envelope], Awaitable[bool]]
"""Takes a reply of a turn to where it belongs; False where it belongs nowhere."""

OnWait: TypeAlias = Callable[[], Awaitable[None]]
"""Notes that a turn has to wait for its session."""


class TurnUnderWay:
    """A turn as its session sees it: its places in line, what it keeps open, and the turn it was started from.

    `lifespan` is what its message brought along to be open while it runs; what is no context manager is left alone.
    `dispatch` takes its replies, None if nobody does. `steering` holds what comes while it runs, None if nothing can.
    `loaded` is what it runs on. `notes` keeps which of its calls have begun, None if nobody does.
    `typed` is the text of the message if the operator handed it over, else None. `writers` tells who wrote what it
    answers, by now. `request` is what a program brings that asks as it would ask a model.
    """

    __slots__ = (
        "above",
        "arrival",
        "dispatch",
        "lifespan",
        "loaded",
        "notes",
        "place",
        "request",
        "runs",
        "scope",
        "steering",
        "typed",
        "writers",
    )

    def __init__(
        self,
        above: TurnUnderWay | None,
        lifespan: Any = None,
        dispatch: Dispatch | None = None,
        steering: Steering | None = None,
        typed: str | None = None,
        notes: CallNotes | None = None,
        writers: Callable[[], Sequence[Writer]] = tuple,
        request: ClientRequest | None = None,
    ) -> None:
        self.request: ClientRequest | None = request
        self.typed: str | None = typed
        self.writers: Callable[[], Sequence[Writer]] = writers
        self.dispatch: Dispatch | None = dispatch
        self.steering: Steering | None = steering
        self.notes: CallNotes | None = notes
        self.loaded: Any = None
        self.runs: bool = True
        self.above: TurnUnderWay | None = above if above is not None and above.runs else None
        self.lifespan = as_manager(lifespan) if lifespan is not None else None
        self.arrival: Ticket | None = None
        self.place: Ticket | None = None
        self.scope: Scope | None = None

    @property
    def ask(self) -> Ask | None:
        """Puts a question to who sent the message; None if nobody can be asked."""
        return None

    @property
    def bounds(self) -> Sequence[MovingDeadline]:
        """The time-outs that bound something of it now."""
        return ()

    async def tell(self, event: StreamEvent) -> None:
        """Tell who listens to its answer of an event that comes beside that."""

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

    There is one queue for each session (BEHAVIOURS T40). Messages of one origin wait in line until they are in that
    of their session, so that they keep their order even if finding the session takes time.
    """

    def __init__(self, limit: int) -> None:
        self._arrivals = Lanes()
        self._lanes = Lanes(limit)
        self._waits_for: dict[TurnUnderWay, list[Hashable]] = {}
        self._seen: OrderedDict[str, None] = OrderedDict()

    def set_limit(self, limit: int) -> None:
        """Let so many turns run at once from now on."""
        self._lanes.widen(limit)

    def line_up(self, turn: TurnUnderWay, origin: str) -> None:
        """Take a place behind the messages that came before from the same place, without waiting."""
        turn.arrival = self._arrivals.take(origin)

    async def reach(self, turn: TurnUnderWay) -> None:
        """Wait until a turn may look for its session."""
        if turn.arrival is not None:
            await self._arrivals.reach(turn.arrival)

    async def hold(
        self, turn: TurnUnderWay, session_id: str, *, alone: bool = True, on_wait: OnWait | None = None
    ) -> bool:
        """Take a session for a turn, once it is free and there is room; says whether it had to wait.

        A turn that need not be `alone` waits for nobody else in its session, only for room. One that somebody's turn
        has started does not wait for room, since that one waits for it already. `on_wait` is called before it waits,
        with its place in line taken. Raises `BubError` if the wait could
        never end.
        """
        above = turn.above
        if above is not None and alone:
            # Whoever need not be alone in a session lets the turns that it starts there run beside it, too.
            own = {one.place for one in above.chain() if one.place is not None}
            alone = not any(place in own and not place.alone for place in self._lanes.holders(session_id))
        place = turn.place = self._lanes.take(session_id, turn, alone=alone, beyond=above is not None)
        self.let_arrive(turn)
        if place.is_reached:
            return False
        if on_wait is not None:
            await on_wait()
        await self._wait(turn, place)
        return True

    def park(self, turn: TurnUnderWay) -> None:
        """Give the place of a turn among those that run to another one; its session goes on waiting for it."""
        if turn.place is not None:
            self._lanes.park(turn.place)

    async def unpark(self, turn: TurnUnderWay) -> None:
        """Wait until a turn that was parked may run again."""
        if turn.place is not None:
            await self._lanes.unpark(turn.place)

    def let_arrive(self, turn: TurnUnderWay) -> None:
        """Let the next message of a turn's origin look for its session."""
        if turn.arrival is not None:
            arrival, turn.arrival = turn.arrival, None
            self._arrivals.leave(arrival)

    async def _wait(self, turn: TurnUnderWay, place: Ticket) -> None:
        """Wait for a session, unless whoever has it waits, in the end, for this turn."""
        waiting = tuple(turn.chain())
        asked, seen = [place.lane], set[Hashable]()
        while asked:
            wanted = asked.pop()
            if wanted in seen:
                continue
            seen.add(wanted)
            for holder in self._lanes.holders(wanted):
                if holder.owner in waiting and holder is not place:
                    raise BubError(
                        f"a turn cannot wait for another turn of the same session: `{place.lane}` waits for this one",
                        help="start it once that turn is over, or in a session of its own",
                    )
                asked += self._waits_for.get(holder.owner, ())
        for one in waiting:
            self._waits_for.setdefault(one, []).append(place.lane)
        try:
            await self._lanes.reach(place)
        finally:
            for one in waiting:
                self._waits_for[one].remove(place.lane)
                if not self._waits_for[one]:
                    del self._waits_for[one]

    def remember(self, session_id: str) -> str:
        """Note that a session has a turn; says whether it is "new" or "known"."""
        if session_id in self._seen:
            self._seen.move_to_end(session_id)
            return "known"
        self._seen[session_id] = None
        if len(self._seen) > MOST_REMEMBERED:
            self._seen.popitem(last=False)
        return "new"

    def running(self, session_id: str) -> int:
        """How many turns have a session: they run, or wait only for room."""
        return len(self._lanes.holders(session_id))

    def waiting(self, session_id: str) -> int:
        """How many turns wait for a session."""
        return len(self._lanes.waiting(session_id))

    def leave(self, turn: TurnUnderWay) -> None:
        """Give back what a turn has taken, so that the next ones can go on."""
        turn.runs = False
        if turn.place is not None:
            place, turn.place = turn.place, None
            self._lanes.leave(place)
        self.let_arrive(turn)


def origin_of(message: Envelope) -> str:
    """Return the origin of a message: the session it names itself, else its channel and chat (BEHAVIOURS T4)."""
    own = field_of(message, SESSION)
    named = str(own).strip() if own else ""
    return named or f"{field_of(message, 'channel')}:{field_of(message, 'chat_id')}"
