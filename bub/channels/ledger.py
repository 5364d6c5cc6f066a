"""What was received and is not done with yet: in memory as it is on the disk, whatever the disk does."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import trio

from bub.channels.delivery import Deliveries
from bub.channels.mailbox import Mailbox, MailboxError, Received
from bub.channels.message import ChannelMessage
from bub.counts import Counts
from bub.errors import BubError
from bub.log import log_exception

DISK_PAUSE = 5.0
"""How long, in seconds, a disk that failed is left alone."""


class Ledger:
    """Knows the messages that wait for an answer, each once, and has their replies delivered.

    `settled` is called whenever there may be nothing more to do for now.
    """

    def __init__(
        self, mailbox: Mailbox, deliveries: Deliveries, counts: Counts, *, settled: Callable[[], None]
    ) -> None:
        self._mailbox = mailbox
        self._deliveries = deliveries
        self._counts = counts
        self._settled = settled
        self._known: set[int] = set()
        self._done_while_reading: set[int] = set()
        self._is_reading = False
        self._is_unsure = False

    def __len__(self) -> int:
        """How many messages have been received and are not done with yet."""
        return len(self._known)

    async def receive(self, message: ChannelMessage) -> Received | None:
        """Keep a message on the disk; None where it is known already. Raises MailboxError when it cannot be kept."""
        try:
            received = await self._mailbox.receive(message)
        except MailboxError:
            self._is_unsure = True  # a disk that does not answer may have taken it after all
            raise
        if received is None or received.id in self._known:
            return None
        self._known.add(received.id)
        return received

    async def has_changed(self) -> bool:
        """Whether the disk may have what is not known here: `bub inbox` put something back, or the disk once failed."""
        self._is_unsure = await self._mailbox.requeued() or self._is_unsure
        return self._is_unsure

    async def take_up(self, channels: Collection[str]) -> list[Received]:
        """Have the replies on the disk delivered; the messages there for these channels that are not known yet."""
        await self._deliveries.take_up()
        self._is_reading = True
        try:
            waiting = await self._mailbox.waiting()
            # What was done with while the disk was read is still in what was read.
            over = self._known | self._done_while_reading
        finally:
            self._is_reading = False
            self._done_while_reading.clear()
        self._is_unsure = False
        found = [one for one in waiting if one.id not in over and one.message.channel in channels]
        self._known.update(one.id for one in found)
        return found

    async def finish(self, ids: Sequence[int], replies: Sequence[ChannelMessage] = ()) -> None:
        """The messages are done with, and their replies are on their way: in one step, as soon as the disk takes it."""
        while True:
            try:
                with trio.CancelScope(shield=True):
                    outgoing = await self._mailbox.finish(ids, replies)
                    break
            except BubError as error:
                self._is_unsure = True
                log_exception("inbox.unwritable", error, again_in=DISK_PAUSE)
                self._counts.failure("inbox")
                await trio.sleep(DISK_PAUSE)
        self._forget(ids)
        for one in outgoing:
            self._deliveries.add(one)
        self._settled()

    async def give_up(self, received: Received, reason: str, replies: Sequence[ChannelMessage]) -> None:
        """Set a message aside for `bub inbox`, and say so; where the disk does not take it, it is tried again later."""
        try:
            for one in await self._mailbox.set_aside([received.id], reason, replies):
                self._deliveries.add(one)
        except BubError as error:
            self._is_unsure = True
            log_exception("inbox.unwritable", error)
        finally:
            self._forget([received.id])
            self._settled()

    async def give_back(self, ids: Sequence[int]) -> None:
        """Do not count a turn that was begun and is none to blame for its end."""
        try:
            await self._mailbox.give_back(ids)
        except BubError as error:  # at worst it is tried once less
            log_exception("inbox.unwritable", error)

    def _forget(self, ids: Sequence[int]) -> None:
        self._known.difference_update(ids)
        if self._is_reading:
            self._done_while_reading.update(ids)
