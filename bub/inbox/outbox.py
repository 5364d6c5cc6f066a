"""Getting replies to where they go: in order for each chat, again and again until they have arrived."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import trio

from bub.base.backoff import Backoff
from bub.base.counts import Counts
from bub.base.failures import is_ordinary
from bub.channels.channel import Channel, TryLaterError, UndeliverableError
from bub.channels.message import ChannelMessage
from bub.errors import BubError
from bub.inbox.state import OF_REPLIES, Entries, State
from bub.inbox.store import Id, InboxStore, Outgoing
from bub.log import log_exception, log_warning

LONGEST_PAUSE = 300.0
"""The longest wait, in seconds, between two attempts if the channel does not say how long, and after a restart."""

_BACKOFF = Backoff(1.0, longest=LONGEST_PAUSE, spread=0.5)  # never all chats at the same moment

MOST_FAILURES = 100
"""After how many failures, some hours at the longest pause, a reply is set aside for `bub inbox`."""

SHORTEST_PAUSE = 0.1
"""The shortest wait, in seconds, before the next attempt, whatever the channel says."""

LONGEST_PATIENCE = 86_400.0
"""The longest wait, in seconds, before the next attempt, whatever the channel says."""

TOLD_EVERY = 60.0
"""How often, in seconds, the log tells that replies of a channel are tried again."""

WORTH_NOTING = 60.0
"""From how many seconds on a pause after a failure is kept on the disk: after a restart, a shorter one is none."""

_NOTING = 10.0
"""How long, in seconds, it may take to note what became of a reply while everything is being ended."""
_DISK_PAUSE = 5.0

_KNOWN_FOR = 5.0
"""How long, in seconds, a reply of a shared store is known after its end: what was read before may come later."""


class _Lane:
    """The replies that wait for one chat."""

    __slots__ = ("is_left", "is_over", "pauses", "queue", "scope")

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.is_left = False
        self.queue: deque[Outgoing] = deque()
        self.is_over = trio.Event()
        self.pauses = False


class Outbox:
    """Sends what is in the outbox, chats side by side and the replies to one chat one after another.

    `start_soon` starts a task, `settled` is called whenever there may be nothing more to do for now.
    """

    def __init__(
        self,
        mailbox: InboxStore,
        channels: Mapping[str, Channel],
        counts: Counts,
        *,
        start_soon: Callable[..., None],
        settled: Callable[[], None],
        is_shared: bool = False,
    ) -> None:
        self._mailbox = mailbox
        self._channels = channels
        self._counts = counts
        self._start_soon = start_soon
        self._settled = settled
        self._lanes: dict[tuple[str, str], _Lane] = {}
        self._told: dict[str, float] = {}
        self._entries = Entries(OF_REPLIES, seconds=_KNOWN_FOR if is_shared else 0)

    @property
    def waiting(self) -> int:
        """How many replies have not arrived yet."""
        return len(self._entries)

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to do now: no reply waits, except those that are tried again later."""
        return all(lane.pauses for lane in self._lanes.values())

    def has_replies(self, message: ChannelMessage) -> bool:
        """Whether a reply to the chat of a message waits to be sent."""
        return _address_of(message) in self._lanes

    async def replies_sent(self, message: ChannelMessage) -> None:
        """Wait until none does."""
        while (lane := self._lanes.get(_address_of(message))) is not None:
            await lane.is_over.wait()

    async def keep_draft(self, message: ChannelMessage, draft: str) -> bool:
        """Keep what a channel notes of the reply that it is sending, as its `draft`; False if there is none."""
        lane = self._lanes.get(_address_of(message))
        if lane is None or replace(lane.queue[0].message, draft=message.draft) != message:
            return False
        under_way = lane.queue[0]
        lane.queue[0] = replace(under_way, message=replace(message, draft=draft))
        await self._mailbox.keep_reply_draft(under_way.id, draft)
        return True

    def reading(self) -> AbstractContextManager[None]:
        """Hold this open while the store is read and the replies it gave are added."""
        return self._entries.reading()

    def add(self, outgoing: Outgoing) -> None:
        """Send a reply behind those that wait for its chat; one that is known already is left alone."""
        if not self._entries.enter(outgoing.id, State.ANSWERED):
            return
        address = _address_of(outgoing.message)
        lane = self._lanes.get(address)
        if lane is None:
            lane = self._lanes[address] = _Lane()
            self._start_soon(self._work, address, lane)
        lane.queue.append(outgoing)

    async def leave(self, channel: str, patience: float) -> None:
        """Deliver no more replies of a channel, which runs elsewhere now; those under way may end within some seconds.

        What was not delivered is forgotten here: the store has it.
        """
        lanes = [lane for address, lane in self._lanes.items() if address[0] == channel]
        waiting = [one.id for lane in lanes for one in lane.queue]
        for lane in lanes:
            lane.is_left = True
            if lane.pauses:
                lane.scope.cancel()
        with trio.move_on_after(patience):
            for lane in lanes:
                await lane.is_over.wait()
        for lane in lanes:
            lane.scope.cancel()
            await lane.is_over.wait()
        self._entries.drop(waiting)

    async def _work(self, address: tuple[str, str], lane: _Lane) -> None:
        try:
            with lane.scope:
                while lane.queue and not lane.is_left:
                    await self._pause(lane, self._rest_of_wait(lane.queue[0]))
                    await self._deliver(lane)
                    lane.queue.popleft()
        finally:
            del self._lanes[address]
            lane.is_over.set()
            self._settled()

    def _rest_of_wait(self, outgoing: Outgoing) -> float:
        """Return for how many seconds a reply that an earlier process put off still waits.

        That process wrote down a time of day, and the clock may have been set back since. A channel that wanted more
        patience than this says so again.
        """
        seconds = outgoing.not_before - time.time()
        if seconds <= LONGEST_PAUSE:
            return seconds
        where = {"channel": outgoing.message.channel, "chat": outgoing.message.chat_id, "reply": outgoing.id}
        log_warning("outbound.wait_shortened", **where, wanted=round(seconds, 1), seconds=LONGEST_PAUSE)
        return LONGEST_PAUSE

    async def _deliver(self, lane: _Lane) -> None:
        """Try until the first reply has arrived, or never will."""
        outgoing, failures = lane.queue[0], 0
        message = outgoing.message
        where = {"channel": message.channel, "chat": message.chat_id, "reply": outgoing.id}
        while True:
            channel = self._channels.get(message.channel)
            try:
                if channel is None:
                    raise UndeliverableError(f"there is no channel `{message.channel}` here")
                await channel.send(lane.queue[0].message)
            except UndeliverableError as error:
                log_warning("outbound.undeliverable", **where, error=error)
                await self._note("given_up", channel, self._mailbox.undeliverable, outgoing.id, str(error))
                self._entries.advance([outgoing.id], State.SET_ASIDE)
                return
            except BaseException as error:  # `sys.exit` in a channel ends nobody else; a cancellation passes
                if not is_ordinary(error):
                    raise
                failures += not isinstance(error, TryLaterError)  # who asks for patience has not failed
                if failures >= MOST_FAILURES:
                    log_exception("outbound.given_up", error, **where, failures=failures)
                    reason = f"{failures} attempts have failed, the last one with: {error}"
                    await self._note("given_up", channel, self._mailbox.undeliverable, outgoing.id, reason)
                    self._entries.advance([outgoing.id], State.SET_ASIDE)
                    return
                wanted = error.seconds if isinstance(error, TryLaterError) else _BACKOFF.pause_after(failures)
                seconds = min(LONGEST_PATIENCE, max(SHORTEST_PAUSE, wanted))
                self._tell_of_trouble(where, seconds=round(seconds, 1), error=error)
                if isinstance(error, TryLaterError) or seconds >= WORTH_NOTING:
                    await self._note("again", channel, self._put_off, outgoing.id, seconds)
                else:
                    self._counts.delivery(message.channel, "again")
                await self._pause(lane, seconds)
            else:
                await self._note("sent", channel, self._mailbox.mark_delivered, outgoing.id)
                self._entries.advance([outgoing.id], State.DELIVERED)
                return

    def _tell_of_trouble(self, where: Mapping[str, Any], **fields: Any) -> None:
        """Put a line into the log for replies that are tried again, once a minute for each channel."""
        channel, now = where["channel"], trio.current_time()
        if now >= self._told.get(channel, -TOLD_EVERY) + TOLD_EVERY:
            self._told[channel] = now
            log_warning("outbound.put_off", **where, **fields, waiting=self.waiting)

    async def _put_off(self, outgoing: Id, seconds: float) -> None:
        await self._mailbox.put_off(outgoing, not_before=time.time() + seconds)

    async def _note(self, outcome: str, channel: Channel | None, note: Callable[..., Any], *what: Any) -> None:
        """Write down what became of a reply, as soon as the disk takes it: what has been sent is not sent again."""
        if channel is not None:
            self._counts.delivery(channel.name, outcome)
        while True:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _NOTING):
                try:
                    await note(*what)
                    return
                except BubError as error:
                    log_exception("outbound.not_noted", error, outcome=outcome, again_in=_DISK_PAUSE)
            await trio.sleep(_DISK_PAUSE)

    async def _pause(self, lane: _Lane, seconds: float) -> None:
        if seconds > 0:
            lane.pauses = True
            self._settled()
            try:
                await trio.sleep(min(seconds, LONGEST_PATIENCE))
            finally:
                lane.pauses = False


def _address_of(message: ChannelMessage) -> tuple[str, str]:
    return message.channel, message.chat_id
