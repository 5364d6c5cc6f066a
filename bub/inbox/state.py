"""The one state machine of the inbox: the states of a message on its way, and those that may follow each.

    received → batched → admitted → running → answered → delivered

From each step before its end it can be set aside instead, or be done with early: a message that is dropped, overheard
or cancelled is answered with nothing. The message itself ends as answered; its replies begin there, and end as
delivered.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from types import MappingProxyType

import trio

from bub.errors import BubError
from bub.inbox.store import Id


class State(Enum):
    """The state of a message or a reply."""

    RECEIVED = "received"
    """It is in the store, and waits for others or for its channel."""
    BATCHED = "batched"
    """It is to be answered as one with those that came close to it."""
    ADMITTED = "admitted"
    """Its session is known: it waits for its turn, or was given to one that runs."""
    RUNNING = "running"
    """A turn answers it, which was counted."""
    ANSWERED = "answered"
    """The message has left the inbox; its replies, if any, are in the outbox."""
    DELIVERED = "delivered"
    """A reply has arrived."""
    SET_ASIDE = "set aside"
    """It is a dead letter. `bub inbox retry` lets it begin again, as received or as answered."""


TRANSITIONS: Mapping[State, frozenset[State]] = MappingProxyType(
    {
        State.RECEIVED: frozenset({State.BATCHED, State.ANSWERED, State.SET_ASIDE}),
        State.BATCHED: frozenset({State.ADMITTED, State.RUNNING, State.ANSWERED, State.SET_ASIDE}),
        State.ADMITTED: frozenset({State.RUNNING, State.ANSWERED, State.SET_ASIDE}),
        State.RUNNING: frozenset({State.ADMITTED, State.RECEIVED, State.ANSWERED, State.SET_ASIDE}),
        State.ANSWERED: frozenset({State.DELIVERED, State.SET_ASIDE}),
        State.DELIVERED: frozenset(),
        State.SET_ASIDE: frozenset(),
    }
)
"""The states that may follow each state.

A message runs before it is admitted if finding its session calls a plugin, which may end the process; if it has to wait
then, it goes back to admitted. A turn that the end of the process cut short leads back to received.
"""

OF_MESSAGES = frozenset({State.ANSWERED, State.SET_ASIDE})
"""The states in which messages end."""

OF_REPLIES = frozenset({State.DELIVERED, State.SET_ASIDE})
"""The states in which replies end."""


class IllegalTransitionError(BubError):
    """Something was to go where it cannot go from where it is; a mistake in Bub. Nothing was changed."""

    def __init__(self, id: Id, state: State | None, to: State) -> None:  # noqa: A002
        where = f"is {state.value}" if state is not None else "is none that waits"
        super().__init__(f"{id} of the inbox cannot become {to.value}: it {where}")
        self.id = id
        self.state = state
        self.to = to


class Entries:
    """Owns the state of all messages, or of all replies, that this process has claimed, until they are at their `ends`.

    Each may have an owner, such as the chat that it came from: `count_of` says how many an owner has here.

    What the store gave while something ended may still have it: `reading` tells them apart. A store that is
    read at any time is waited for: what has ended is known here for some seconds more.
    """

    def __init__(self, ends: frozenset[State], *, seconds: float = 0.0) -> None:
        self._ends = ends
        self._seconds = seconds
        self._over: dict[Id, float] = {}
        self._states: dict[Id, State] = {}
        self._since: dict[Id, float] = {}
        self._owners: dict[Id, Hashable] = {}
        self._held: Counter[Hashable] = Counter()
        self._ended: set[Id] | None = None

    def __len__(self) -> int:
        return len(self._states)

    def state(self, id: Id) -> State | None:  # noqa: A002
        """Return the state of something; None if it has ended, or was never entered."""
        return self._states.get(id)

    def knows(self, id: Id) -> bool:  # noqa: A002
        """Whether something is here, or ended while the store was read."""
        return id in self._states or id in self._over or (self._ended is not None and id in self._ended)

    @property
    def oldest(self) -> float:
        """For how many seconds the one is here that came first; 0 if there is none."""
        since = next(iter(self._since.values()), None)
        return 0.0 if since is None else time.monotonic() - since

    def count_of(self, owner: Hashable) -> int:
        """How many of an owner are here."""
        return self._held[owner]

    def enter(self, id: Id, state: State, owner: Hashable = None) -> bool:  # noqa: A002
        """Let something begin in a state; False if it has begun already, or ended while the store was read."""
        if self.knows(id):
            return False
        self._states[id] = state
        self._since[id] = time.monotonic()
        if owner is not None:
            self._owners[id] = owner
            self._held[owner] += 1
        return True

    def check(self, ids: Iterable[Id], to: State) -> None:
        """Raise `IllegalTransitionError` if one of these cannot go there."""
        for one in ids:
            state = self._states.get(one)
            if state is None or to not in TRANSITIONS[state]:
                raise IllegalTransitionError(one, state, to)

    def advance(self, ids: Iterable[Id], to: State) -> None:
        """Let all of these go on to a state. Raises `IllegalTransitionError`, and then none of them has moved."""
        ids = tuple(ids)
        self.check(ids, to)
        for one in ids:
            if to in self._ends:
                self.forget(one)
                self._remember(one)
            else:
                self._states[one] = to

    def forget(self, id: Id) -> None:  # noqa: A002
        """Have no more to do with something, whatever it is at: the store knows."""
        self._states.pop(id, None)
        self._since.pop(id, None)
        owner = self._owners.pop(id, None)
        if owner is not None:
            self._held[owner] -= 1
            if not self._held[owner]:
                del self._held[owner]
        if self._ended is not None:
            self._ended.add(id)

    def drop(self, ids: Iterable[Id]) -> None:
        """Forget things that are somebody else's by now: they may come again, wherever they are."""
        for one in tuple(ids):
            self.forget(one)
            self._over.pop(one, None)

    def here(self) -> list[Id]:
        """Return what is here."""
        return [*self._states]

    def ids(self) -> list[Id]:
        """Return what is here, and what has ended lately."""
        return [*self._states, *self._over]

    def _remember(self, id: Id) -> None:  # noqa: A002
        if not self._seconds:
            return
        now = trio.current_time()
        self._over[id] = now + self._seconds
        for one, until in list(itertools.islice(self._over.items(), 2)):  # the oldest are first
            if until < now:
                del self._over[one]

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold this open while the store is read and what it gave is entered."""
        self._ended = set()
        try:
            yield
        finally:
            self._ended = None
