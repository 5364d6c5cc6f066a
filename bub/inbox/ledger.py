"""Owns the state of every message that was received and is not done with yet, whatever the disk does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import TypeAlias

import trio

from bub.approval import NotedCall
from bub.base.counts import Counts
from bub.base.redis.keys import partition_of_id
from bub.channels.message import ChannelMessage
from bub.errors import BubError
from bub.inbox.outbox import Outbox
from bub.inbox.schedules.firing import Firing
from bub.inbox.shared.store import SharedInbox
from bub.inbox.state import OF_MESSAGES, Entries, State
from bub.inbox.store import FencedError, Id, InboxStore, MailboxError, Outgoing, Received, Token
from bub.log import log_exception, log_warning

MOST_OF_ONE = 1_000
"""How many messages of one chat may wait in memory; what comes above that waits on the disk alone."""

_BESIDE_SHARE = 4
"""By which part of its share a chat may have more here of what overtakes what waits on the disk."""

MOST_WAITING = 10_000
"""How many messages may wait in memory; channels that bring more wait themselves."""

_TAKEN_UP = 0.8
"""Which part of these places may be filled from the disk, so that there is room for what comes in meanwhile."""

DISK_PAUSE = 5.0
"""How long, in seconds, a disk that failed is left alone."""

_KNOWN_FOR = 5.0
"""How long, in seconds, a message of a shared store is known after its end: what was read before may come later."""

Origin: TypeAlias = tuple[str, str]
"""The place messages come from, so that they keep their order: the channel, and the session if they name one (C6)."""


def origin_of(message: ChannelMessage) -> Origin:
    """Return the place a message comes from."""
    return message.channel, message.origin


class Ledger:
    """Leads each message from one state to the next, on the disk as here, and has the replies delivered.

    Every change of state goes through it: `bub/inbox/state.py` says which there are. `settled` is called whenever
    there may be nothing more to do for now. `overtakes` says which messages need not wait for what of their chat waits
    on the disk, such as one to quit. `is_ours` says which messages of a `shared` store may begin here.
    """

    def __init__(
        self,
        store: InboxStore,
        outbox: Outbox,
        counts: Counts,
        *,
        settled: Callable[[], None],
        overtakes: Callable[[ChannelMessage], bool] = lambda message: False,
        shared: SharedInbox | None = None,
        is_ours: Callable[[Id], bool] = lambda one: True,
    ) -> None:
        self._store = store
        self._outbox = outbox
        self._counts = counts
        self._settled = settled
        self._overtakes = overtakes
        self._shared = shared
        self._is_ours = is_ours
        self._entries = Entries(OF_MESSAGES, seconds=_KNOWN_FOR if shared is not None else 0)
        self._token: Token | None = None
        self._is_unsure = False
        self._left: dict[Origin, list[Id]] = {}
        self._forgotten: dict[Id, str] = {}

    def __len__(self) -> int:
        """How many messages have been received and are not done with yet."""
        return len(self._entries) + sum(len(ids) for ids in self._left.values())

    @property
    def in_memory(self) -> int:
        """How many of them are here; the others wait on the disk, since their chats have so many here already."""
        return len(self._entries)

    @property
    def oldest(self) -> float:
        """For how many seconds the message is here that came first; 0 if there is none."""
        return self._entries.oldest

    @property
    def is_full(self) -> bool:
        """Whether as many are here as may be."""
        return self.in_memory >= MOST_WAITING

    def state(self, id: Id) -> State | None:  # noqa: A002
        """Return the state of a message; None if it is done with, or not here."""
        return self._entries.state(id)

    async def receive(self, message: ChannelMessage) -> Received | None:
        """Keep a message on the disk; None if it is known already. Raises MailboxError when it cannot be kept.

        One whose chat has its share here has no `state`: it is left on the disk, and taken up later.
        """
        return await self._keep(self._store.receive(message))

    async def still_waits(self, message: ChannelMessage) -> bool:
        """Whether a message that is known already is not done with yet. Raises MailboxError if that cannot be read."""
        return not message.once or await self._store.still_waits(message)

    async def fire(self, firing: Firing, message: ChannelMessage, *, until: float, missed: int) -> Received | None:
        """Keep the message of a firing as `receive` does; None if it was claimed before (`InboxStore.fire`)."""
        return await self._keep(self._store.fire(firing, message, until=until, missed=missed))

    async def _keep(self, keeping: Awaitable[Received | None]) -> Received | None:
        try:
            received = await keeping
        except MailboxError:
            self._is_unsure = True  # a disk that does not answer may have taken it after all
            raise
        if received is None or self._shared is not None:
            return received
        if self._entries.knows(received.id):
            return None
        self._enter(received)
        return received

    def take_in(self, found: Iterable[Received]) -> list[Received]:
        """Let messages begin that a shared store has given, and return those that begin now."""
        return [one for one in found if self._is_ours(one.id) and self._enter(one)]

    def drop(self, is_gone: Callable[[Id], bool]) -> None:
        """Forget messages that another gateway works on by now."""
        self._entries.drop(one for one in self._entries.ids() if is_gone(one))
        self._drop_left(is_gone)
        self._settled()

    def let_go(self, is_meant: Callable[[Id], bool]) -> None:
        """Forget messages that are about to be read again; those that have ended lately do not begin again."""
        for one in self._entries.here():
            if is_meant(one):
                self._entries.forget(one)
        self._drop_left(is_meant)

    def _drop_left(self, is_gone: Callable[[Id], bool]) -> None:
        left = {origin: [one for one in ids if not is_gone(one)] for origin, ids in self._left.items()}
        self._left = {origin: ids for origin, ids in left.items() if ids}

    def count_left(self, origin: Origin) -> int:
        """Return how many messages of a chat wait on the disk alone, since the chat has its share here."""
        return len(self._left.get(origin, ()))

    def leave_behind(self, received: Received) -> bool:
        """Leave a message that came before the inbox was read on the disk, if older ones of its chat are left there."""
        left = self._left.get(origin_of(received.message))
        if left is None:
            return False
        self._entries.forget(received.id)
        left.append(received.id)
        return True

    async def has_changed(self) -> bool:
        """Whether the disk may have what is not known here: `bub inbox` put something back, or the disk once failed."""
        self._is_unsure = await self._store.was_requeued() or self._is_unsure
        return self._is_unsure

    async def take_up(self, channels: Collection[str]) -> list[Received]:
        """Have the replies on the disk delivered; the messages there for these channels that are not known yet."""
        with self._outbox.reading(), self._entries.reading():
            claim = await self._store.claim(channels)
            self._token = claim.token
            self._is_unsure = False
            self._post(claim.replies)
            left, self._left = self._left, {}
            found = [one for one in claim.messages if self._is_ours(one.id) and self._enter(one, from_disk=True)]
            # What came in while the store was read may be in neither yet.
            last = claim.messages[-1].id if claim.messages else 0
            for origin, ids in left.items():
                self._left.setdefault(origin, []).extend(one for one in ids if one > last)
            self._left = {origin: ids for origin, ids in self._left.items() if ids}
            return found

    async def take_up_left(self) -> list[Received]:
        """The next messages of the chats that have half of their share again, in order; no others are read."""
        found: list[Received] = []
        for origin in list(self._left):
            room = min(MOST_OF_ONE - self._entries.count_of(origin), self._room)
            ids = self._left[origin][: max(room, 0)]
            if not ids or self._entries.count_of(origin) > MOST_OF_ONE // 2:
                continue
            messages = await self._store.fetch(ids)
            self._drop_left(set(ids).__contains__)
            found += [
                one for one in messages if self._is_ours(one.id) and self._entries.enter(one.id, State.RECEIVED, origin)
            ]
        return found

    def forget_left(self, origin: Origin, session_id: str, before: Id | None) -> None:
        """What of a session is left on the disk is wanted no more, as far as it came `before` a message.

        Whose session a message is, is known once it has arrived: then ask `is_forgotten`.
        """
        ids = (one for one in self._left.get(origin, ()) if before is None or one < before)
        self._forgotten.update(dict.fromkeys(ids, session_id))

    def is_forgotten(self, ids: Iterable[Id], session_id: str) -> bool:
        """Whether messages that have arrived in a session were forgotten there, all of them, before they did."""
        return {self._forgotten.pop(one, None) for one in ids} == {session_id}

    def batch(self, ids: Iterable[Id]) -> None:
        """The messages are to be answered as one."""
        self._entries.advance(ids, State.BATCHED)

    def admit(self, ids: Iterable[Id]) -> None:
        """The session of the messages is known, and they are let in."""
        self._entries.advance(ids, State.ADMITTED)

    async def begin(self, ids: Sequence[Id]) -> Sequence[NotedCall]:
        """A turn that answers the messages begins, and is counted first; return the calls noted for it before.

        Raises MailboxError if it cannot be counted.
        """
        self._entries.check(ids, State.RUNNING)
        earlier = await self._store.begin(ids, token=self._token)
        self._entries.advance(ids, State.RUNNING)
        return earlier

    async def finish(self, ids: Sequence[Id], replies: Sequence[ChannelMessage] = ()) -> None:
        """The messages are done with, and their replies are on their way: in one step, as soon as the disk takes it."""
        if ids and not self._still_here(ids):
            return
        self._entries.check(ids, State.ANSWERED)
        while True:
            try:
                with trio.CancelScope(shield=True):
                    outgoing = await self._store.finish(ids, replies, token=self._token)
                    break
            except FencedError as error:  # whoever has them now answers them
                log_warning("inbox.fenced", messages=len(ids), error=error)
                outgoing = []
                break
            except BubError as error:
                self._is_unsure = True
                log_exception("inbox.unwritable", error, again_in=DISK_PAUSE)
                self._counts.failure("inbox")
                await trio.sleep(DISK_PAUSE)
        self._entries.advance(self._still_here(ids), State.ANSWERED)
        self._post(outgoing)
        self._settled()

    def is_home(self, ids: Sequence[Id], session_id: str) -> bool:
        """Whether messages are where their session is answered; they always are in a store of one process."""
        return self._shared is None or self._shared.partition_of(session_id) == partition_of_id(ids[0])

    async def move(self, ids: Sequence[Id], session_id: str, arrival: bytes) -> None:
        """Move messages to where their session is answered, as soon as the store takes it."""
        assert self._shared is not None
        while True:
            try:
                with trio.CancelScope(shield=True):
                    await self._shared.move(ids, session_id, arrival)
                    break
            except FencedError:
                raise
            except BubError as error:
                log_exception("inbox.unwritable", error, again_in=DISK_PAUSE)
                await trio.sleep(DISK_PAUSE)
        self._entries.drop(ids)
        self._settled()

    async def give_up(self, received: Received, reason: str, replies: Sequence[ChannelMessage]) -> bool:
        """Set a message aside for `bub inbox`, and say so; False if the disk does not take it: it is tried later."""
        try:
            self._post(await self._store.set_aside([received.id], reason, replies, token=self._token))
            self._entries.advance(self._still_here([received.id]), State.SET_ASIDE)
            return True
        except BubError as error:
            self._is_unsure = True
            log_exception("inbox.unwritable", error)
            self._entries.forget(received.id)
            return False
        finally:
            self._settled()

    async def let_wait(self, ids: Sequence[Id]) -> None:
        """The messages that were begun are admitted and have to wait: what ends the process meanwhile is not them."""
        await self._uncount(ids)
        self._entries.advance(ids, State.ADMITTED)

    async def give_back(self, ids: Sequence[Id]) -> None:
        """Do not count a turn that was begun and is none to blame for its end."""
        await self._uncount(ids)
        self._entries.advance(ids, State.RECEIVED)

    def _still_here(self, ids: Sequence[Id]) -> Sequence[Id]:
        """Leave out messages of a shared store that went to another gateway while something was waited for."""
        if self._shared is None:
            return ids
        return [one for one in ids if self._entries.state(one) is not None]

    def _post(self, outgoing: Iterable[Outgoing]) -> None:
        """Have replies delivered; those of a shared store come to who runs their channel."""
        if self._shared is None:
            for one in outgoing:
                self._outbox.add(one)

    @property
    def _room(self) -> int:
        """How many messages may be taken up from the disk."""
        return int(MOST_WAITING * _TAKEN_UP) - self.in_memory

    def _enter(self, received: Received, *, from_disk: bool = False) -> bool:
        """Let a message begin; False if it has begun already, or is left on the disk since its chat has its share here.

        What is left there is taken up as soon as the chat has half of its share again, in order.
        """
        origin = origin_of(received.message)
        here = self._entries.count_of(origin)
        if self._overtakes(received.message):
            is_left = here >= MOST_OF_ONE + MOST_OF_ONE // _BESIDE_SHARE
        else:
            is_left = origin in self._left or here >= MOST_OF_ONE or (from_disk and here > 0 and self._room <= 0)
        if is_left:
            if not self._entries.knows(received.id):
                self._left.setdefault(origin, []).append(received.id)
            return False
        return self._entries.enter(received.id, State.RECEIVED, origin)

    async def _uncount(self, ids: Sequence[Id]) -> None:
        try:
            await self._store.give_back(ids, token=self._token)
        except BubError as error:  # at worst it is tried once less
            log_exception("inbox.unwritable", error)
