"""Owns the state of every message that was received and is not done with yet, whatever the disk does."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import trio

from bub.base.counts import Counts
from bub.channels.message import ChannelMessage
from bub.errors import BubError
from bub.inbox.outbox import Outbox
from bub.inbox.state import OF_MESSAGES, Entries, State
from bub.inbox.store import FencedError, Id, InboxStore, MailboxError, Received, Token
from bub.log import log_exception, log_warning

DISK_PAUSE = 5.0
"""How long, in seconds, a disk that failed is left alone."""


class Ledger:
    """Leads each message from one state to the next, on the disk as here, and has the replies delivered.

    Every change of state goes through it: `bub/inbox/state.py` says which there are. `settled` is called whenever
    there may be nothing more to do for now.
    """

    def __init__(self, store: InboxStore, outbox: Outbox, counts: Counts, *, settled: Callable[[], None]) -> None:
        self._store = store
        self._outbox = outbox
        self._counts = counts
        self._settled = settled
        self._entries = Entries(OF_MESSAGES)
        self._token: Token | None = None
        self._is_unsure = False

    def __len__(self) -> int:
        """How many messages have been received and are not done with yet."""
        return len(self._entries)

    def state(self, id: Id) -> State | None:  # noqa: A002
        """Where a message is; None if it is done with, or not here."""
        return self._entries.state(id)

    async def receive(self, message: ChannelMessage) -> Received | None:
        """Keep a message on the disk; None where it is known already. Raises MailboxError when it cannot be kept."""
        try:
            received = await self._store.receive(message)
        except MailboxError:
            self._is_unsure = True  # a disk that does not answer may have taken it after all
            raise
        if received is None or not self._entries.enter(received.id, State.RECEIVED):
            return None
        return received

    async def has_changed(self) -> bool:
        """Whether the disk may have what is not known here: `bub inbox` put something back, or the disk once failed."""
        self._is_unsure = await self._store.requeued() or self._is_unsure
        return self._is_unsure

    async def take_up(self, channels: Collection[str]) -> list[Received]:
        """Have the replies on the disk delivered; the messages there for these channels that are not known yet."""
        with self._outbox.reading(), self._entries.reading():
            claim = await self._store.claim(channels)
            self._token = claim.token
            self._is_unsure = False
            for reply in claim.replies:
                self._outbox.add(reply)
            return [one for one in claim.messages if self._entries.enter(one.id, State.RECEIVED)]

    def batch(self, ids: Iterable[Id]) -> None:
        """The messages are to be answered as one."""
        self._entries.advance(ids, State.BATCHED)

    def admit(self, ids: Iterable[Id]) -> None:
        """The session of the messages is known, and they are let in."""
        self._entries.advance(ids, State.ADMITTED)

    async def begin(self, ids: Sequence[Id]) -> None:
        """A turn that answers the messages begins, and is counted first. Raises MailboxError if it cannot be."""
        self._entries.check(ids, State.RUNNING)
        await self._store.begin(ids, token=self._token)
        self._entries.advance(ids, State.RUNNING)

    async def finish(self, ids: Sequence[Id], replies: Sequence[ChannelMessage] = ()) -> None:
        """The messages are done with, and their replies are on their way: in one step, as soon as the disk takes it."""
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
        self._entries.advance(ids, State.ANSWERED)
        for one in outgoing:
            self._outbox.add(one)
        self._settled()

    async def give_up(self, received: Received, reason: str, replies: Sequence[ChannelMessage]) -> None:
        """Set a message aside for `bub inbox`, and say so; where the disk does not take it, it is tried again later."""
        try:
            for one in await self._store.set_aside([received.id], reason, replies, token=self._token):
                self._outbox.add(one)
            self._entries.advance([received.id], State.SET_ASIDE)
        except BubError as error:
            self._is_unsure = True
            log_exception("inbox.unwritable", error)
            self._entries.forget(received.id)
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

    async def _uncount(self, ids: Sequence[Id]) -> None:
        try:
            await self._store.give_back(ids, token=self._token)
        except BubError as error:  # at worst it is tried once less
            log_exception("inbox.unwritable", error)
