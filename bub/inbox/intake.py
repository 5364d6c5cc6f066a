"""Taking in what channels bring: kept on the disk, and collected until it is time to answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import trio

from bub.base.counts import Counts
from bub.base.surfaces import Surface
from bub.channels.channel import Channel
from bub.channels.message import COMMAND, ChannelMessage
from bub.inbox.debounce import Debounce, Timing
from bub.inbox.flood import FloodNotices
from bub.inbox.ledger import Ledger, Origin, origin_of
from bub.inbox.schedules.firing import Firing
from bub.inbox.store import Arrival, Id, Received
from bub.log import log_warning

_MOST_BUFFERS = 10_000


class Intake:
    """Takes in messages, and hands on each batch that is to be answered as one.

    `is_command` tells a comma command by its text, `start_soon` starts a task. What is received in a store that
    `is_shared` comes by `take_in`.
    """

    def __init__(
        self,
        ledger: Ledger,
        channels: Mapping[str, Channel],
        timing: Timing,
        counts: Counts,
        *,
        is_command: Callable[[str], bool],
        hand_on: Callable[[list[Received]], None],
        start_soon: Callable[..., Any],
        is_shared: bool = False,
    ) -> None:
        self._is_shared = is_shared
        self._ledger = ledger
        self._channels = channels
        self._timing = timing
        self._counts = counts
        self._is_command = is_command
        self._hand_on = hand_on
        self._start_soon = start_soon
        self._buffers: dict[Origin, Debounce[Received]] = {}
        self._moved: dict[Id, list[Received]] = {}
        self._early: list[Received] | None = []
        self._floods = FloodNotices()
        self._room = trio.lowlevel.ParkingLot()
        self._is_closed = False

    async def receive(self, message: ChannelMessage, surface: Surface = Surface.CHANNEL) -> bool:
        """Take a message in: it is kept on the disk when this returns, and answered as soon as it can be.

        `surface` is who hands it over. One whose channel does not run is dropped, with a warning (BEHAVIOURS C5), and
        one that is only overheard while nobody has asked for anything is none of the agent's business (C8). Returns
        False if it is dropped, or known by its `once` and done with: nothing follows. Raises `BubError` when it cannot
        be kept.
        """
        channel = self._channels.get(message.channel)
        if channel is None:
            log_warning("inbound.unknown_channel", channel=message.channel)
            return False
        if message.kind == "normal" and self._is_command(message.content):
            message = replace(message, kind=COMMAND)
        if channel.needs_debounce and not self._is_shared and self._early is None and not self._concerns(message):
            return False
        while self._early is None and self._ledger.is_full:
            await self._room.park()
        with trio.CancelScope(shield=True):  # what is kept has to be answered, too
            received = await self._ledger.receive(message)
            follows = received is not None or await self._ledger.still_waits(message)
            if received is not None:
                self._counts.count_received(message.channel)
            if received is not None and not self._is_shared:  # else it comes by `take_in`, where its partition is
                kept = replace(received.message, lifespan=message.lifespan)
                received = replace(received, message=kept, surface=surface)
                if self._ledger.state(received.id) is None:  # it is taken up from the disk
                    self._tell_of_flood(received.message)
                elif self._early is not None:
                    self._early.append(received)  # what was kept from before the start comes first
                else:
                    self._take_in(received)
        await trio.lowlevel.checkpoint()
        return follows

    async def fire(self, firing: Firing, message: ChannelMessage, *, until: float, missed: int) -> bool:
        """Take in the message of a firing of a schedule, whose channel runs; False if it was claimed before.

        Raises `BubError` when it cannot be kept.
        """
        if self._is_command(message.content):
            message = replace(message, kind=COMMAND)
        with trio.CancelScope(shield=True):
            received = await self._ledger.fire(firing, message, until=until, missed=missed)
            if received is None:
                return False
            self._counts.count_received(message.channel)
            if not self._is_shared and self._ledger.state(received.id) is not None:
                self._take_in(received)
        return True

    def take_in(self, found: Iterable[Received]) -> None:
        """Hand on what came into a shared store; what is only overheard while nobody has asked is done with."""
        found = list(found)
        begun = self._ledger.take_in(found)
        for received in begun:
            self._take_in(received)
        for received in found:
            if received not in begun and self._ledger.count_left(origin_of(received.message)):
                self._tell_of_flood(received.message)

    def drop(self, is_gone: Callable[[Id], bool]) -> None:
        """Forget messages that another gateway works on by now, which are not handed on yet."""
        for buffer in self._buffers.values():
            if any(is_gone(one.id) for one in buffer.waiting):
                buffer.take()
        self._moved = {first: moved for first, moved in self._moved.items() if not is_gone(first)}

    def open(self, kept: Sequence[Received]) -> None:
        """Begin to hand on: first what was kept from before the start, then what has come in since."""
        self.take_up(kept)
        early, self._early = self._early or [], None
        for received in early:
            if not self._ledger.leave_behind(received):
                self._take_in(received)

    def take_up(self, kept: Sequence[Received]) -> None:
        """Hand on what was found on the disk: what was only overheard had been listened to, else it were not there."""
        for received in kept:
            self._take_in(received, is_heard=True)

    def close(self) -> None:
        """Hand on no more: what comes in is only kept."""
        self._is_closed = True

    def look_for_room(self) -> None:
        """Go on with the channels that wait, where messages have been answered."""
        if not self._ledger.is_full:
            self._room.unpark_all()

    def _tell_of_flood(self, message: ChannelMessage) -> None:
        """Tell a chat that it has more here than fits, when that begins."""
        if self._ledger.count_left(origin_of(message)) > 1:
            return
        log_warning("inbound.flood", channel=message.channel, chat=message.chat_id)
        notice = self._floods.notice_for(message, trio.current_time())
        if notice is not None:
            self._start_soon(self._ledger.finish, (), [notice])

    def _concerns(self, message: ChannelMessage) -> bool:
        buffer = self._buffers.get(origin_of(message))
        is_heard = buffer is not None and buffer.listens(trio.current_time())
        return message.is_active or message.kind == COMMAND or is_heard

    def _take_in(self, received: Received, *, is_heard: bool = False) -> None:
        if self._is_closed:
            return
        message = received.message
        origin = origin_of(message)
        if received.arrival is not None:
            self._gather(received, received.arrival)
            return
        if not self._channels[message.channel].needs_debounce:
            self._pass_on([received])
            return
        buffer = self._buffers.get(origin)
        if buffer is None:
            self._forget_old_buffers()
            buffer = self._buffers[origin] = Debounce(self._timing)
        if message.kind == COMMAND or received.firing is not None:
            self._flush(buffer)  # it never overtakes what was said before it (C14), and is no part of that
            self._pass_on([received])
            return
        was_waiting = buffer.deadline is not None
        if not buffer.add(received, trio.current_time(), is_active=message.is_active, is_heard=is_heard):
            self._start_soon(self._ledger.finish, [received.id])
        elif not was_waiting:
            self._start_soon(self._wait_for_more, buffer)

    def _gather(self, received: Received, arrival: Arrival) -> None:
        """Hand on what was moved here as one, once all of it is here."""
        moved = self._moved.setdefault(arrival.first, [])
        moved.append(received)
        if len(moved) == arrival.number:
            self._pass_on(self._moved.pop(arrival.first))

    def _forget_old_buffers(self) -> None:
        if len(self._buffers) >= _MOST_BUFFERS:
            now = trio.current_time()
            self._buffers = {origin: buffer for origin, buffer in self._buffers.items() if buffer.listens(now)}

    async def _wait_for_more(self, buffer: Debounce[Received]) -> None:
        while buffer.deadline is not None and trio.current_time() < buffer.deadline:  # noqa: ASYNC110 (it moves)
            # What comes meanwhile can bring it forward, from `max_wait` to `debounce` (C11): look in between.
            await trio.sleep_until(min(buffer.deadline, trio.current_time() + self._timing.debounce))
        self._flush(buffer)

    def _flush(self, buffer: Debounce[Received]) -> None:
        batch = buffer.take()
        if batch and not self._is_closed:
            self._pass_on(batch)

    def _pass_on(self, batch: list[Received]) -> None:
        self._ledger.batch([received.id for received in batch])
        self._hand_on(batch)
