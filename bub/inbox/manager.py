"""Runs channels: has what they bring taken in, answered and replied to, and ends in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import trio

from bub.base.counts import Counts
from bub.base.duration import parse_duration
from bub.base.failures import unwrap_group
from bub.base.redis.leases import Lease
from bub.base.surfaces import Surface
from bub.channels.channel import Channel, RefusedError, TakenAnswer
from bub.channels.commands import command_line, is_quit, prefix_of
from bub.channels.enabling import ALL, choose_channels
from bub.channels.message import COMMAND, ChannelMessage
from bub.channels.own import OwnChannel
from bub.channels.renewal import Renewal
from bub.channels.supervisor import ENDING, RunningChannels
from bub.channels.terminal.channel import Terminal
from bub.envelope import Envelope
from bub.errors import BubError
from bub.inbox.approvals import LOOK_AT_TURNS, Approvals
from bub.inbox.batch import Batch
from bub.inbox.debounce import Timing
from bub.inbox.dispatcher import MOST_INTERRUPTIONS, Dispatcher
from bub.inbox.framework import Framework
from bub.inbox.intake import Intake
from bub.inbox.ledger import Ledger
from bub.inbox.outbox import Outbox
from bub.inbox.schedules.scheduler import Scheduler, Wall
from bub.inbox.shared.sharing import Sharing
from bub.inbox.shared.store import SharedInbox, Worker
from bub.inbox.store import Id, InboxStore, Received
from bub.log import log_exception, log_info, log_warning

SHUTDOWN_GRACE = 20.0
"""How long, in seconds, turns under way may take when all is to end."""

LOOK_AGAIN = 2.0
"""How often, in seconds, it is asked whether the disk has something new."""


class ChannelManager:
    """Runs channels until they have ended or `drain` is called.

    `names` are the channels that are meant (BEHAVIOURS C3), `mailbox` is where messages and replies are kept (in memory
    if left out), `counts` the numbers to keep. With a `wall` clock, the schedules of the framework fire by it. `beside`
    are channels that no plugin brings. The framework has to be `running()`. Raises what `choose_channels` raises.
    """

    def __init__(
        self,
        framework: Framework,
        names: Iterable[str] = (ALL,),
        *,
        mailbox: InboxStore,
        counts: Counts | None = None,
        wall: Wall | None = None,
        worker: Worker | None = None,
        beside: Sequence[OwnChannel] = (),
    ) -> None:
        self._framework = framework
        self._mailbox = mailbox
        counts = counts if counts is not None else Counts()
        brought = framework.get_channels_by_plugin(self.receive)
        available = {name: channel for name, (_, channel) in brought.items()}
        channels = {channel.name: channel for channel in choose_channels(available, tuple(names))}
        self.disabled = {name: channel.why_disabled for name, channel in available.items() if not channel.enabled}
        """The channels that cannot run as they are set up, each with what to do about it."""
        section = framework.settings.get("gateway")
        said = section if isinstance(section, Mapping) else {}
        self._grace = _seconds(said, "shutdown_grace", SHUTDOWN_GRACE)
        self._draining = trio.Event()
        self._settling = trio.lowlevel.ParkingLot()
        self._tasks: trio.Nursery | None = None
        self._channels = channels
        for channel in channels.values():
            if type(channel) is Terminal:  # not what a plugin derives from it, or names like it
                channel.hand_to(partial(self._receive_by, Surface.TERMINAL))
        own = {one.name: one for one in beside if one.name not in available}  # a plugin's has the name, if it has it
        for one in own.values():
            one.hand_to(partial(self._receive_by, one.surface))
        channels |= own
        self._running = RunningChannels(channels.values(), counts, over=self.drain, beside=own)
        self._renewal = Renewal(framework, brought, channels)
        start_soon, settled = self._start_soon, self._note_settled
        is_shared = worker is not None
        shared = cast("SharedInbox", mailbox) if is_shared else None
        self._outbox = Outbox(mailbox, channels, counts, start_soon=start_soon, settled=settled, is_shared=is_shared)
        self._ledger = Ledger(
            mailbox,
            self._outbox,
            counts,
            settled=settled,
            overtakes=self._overtakes,
            shared=shared,
            is_ours=self._is_ours,
        )
        self._approvals = Approvals(framework, mailbox, channels, start_soon=start_soon)
        self._dispatcher = Dispatcher(
            framework,
            self._ledger,
            mailbox,
            channels,
            counts,
            most=int(said["turns"]) if said.get("turns") else None,
            start_soon=start_soon,
            settled=settled,
            approvals=self._approvals,
            lease_of=self._lease_of,
            steps_aside=self._steps_aside,
        )
        self._intake = Intake(
            self._ledger,
            channels,
            _timing(said),
            counts,
            is_command=self._is_command,
            hand_on=self._dispatcher.hand_on,
            start_soon=start_soon,
            is_shared=is_shared,
        )
        self.sharing: Sharing | None = None
        """What this gateway works on, if several share its inbox."""
        if worker is not None and shared is not None:
            self.sharing = Sharing(
                shared,
                worker,
                channels,
                running=self._running,
                ledger=self._ledger,
                intake=self._intake,
                dispatcher=self._dispatcher,
                approvals=self._approvals,
                outbox=self._outbox,
                hand_on=self._hand_on,
                grace=self._grace,
            )
        self._scheduler = wall and Scheduler(
            framework, mailbox, counts, fire=self._intake.fire, runs=self._runs, wall=wall
        )
        counts.gauge("running_turns", lambda: self.turns)
        counts.gauge("inbox_messages", lambda: self.waiting)
        counts.gauge("outbox_messages", lambda: self.undelivered)
        counts.gauge("oldest_message_seconds", lambda: self._ledger.oldest)
        if self.sharing is not None:
            self.sharing.count_in(counts)

    # What can be seen from outside.

    @property
    def names(self) -> tuple[str, ...]:
        """The channels that run, in the order they are started."""
        return tuple(self._channels)

    def channel(self, name: str) -> Channel:
        """One of the channels that run, by its name."""
        return self._channels[name]

    @property
    def states(self) -> dict[str, str]:
        """What each channel is at: "starting", "running", "failed" (it is run again later), "ended" or "refused"."""
        return self._running.states

    @property
    def refusal(self) -> RefusedError | None:
        """Why a channel was refused for good, so that somebody has to see to it; None if none was."""
        return self._running.refusal

    @property
    def schedules(self) -> Mapping[str, Mapping[str, Any]]:
        """How each schedule is (`Scheduler.states`); nothing if none fire."""
        return self._scheduler.states if self._scheduler is not None else {}

    @property
    def is_draining(self) -> bool:
        """Whether all is to end: no turn begins any more."""
        return self._draining.is_set()

    @property
    def turns(self) -> int:
        """How many turns are under way, those that wait for room included."""
        return len(self._dispatcher)

    @property
    def waiting(self) -> int:
        """How many messages have been received and not answered yet."""
        return len(self._ledger)

    @property
    def undelivered(self) -> int:
        """How many replies have not arrived yet."""
        return self._outbox.waiting

    # Running.

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the channels until they have ended or `drain` is called; tells `task_status` when all have begun.

        A channel that cannot begin ends those that have, and its error is raised (BEHAVIOURS C23). Cancelling ends
        everything at once: what was not answered is answered after the next start.
        """
        await (self._mailbox.open() if self.sharing is None else self.sharing.open())
        renew = partial(trio.lowlevel.current_trio_token().run_sync_soon, self._renewal.renew, idempotent=True)
        try:
            with self._framework.when_reloaded(renew):
                self._renewal.renew()  # it may have been loaded again since the channels were made
                await self._run(task_status)
        finally:
            self._tasks = None
            with trio.CancelScope(shield=True, deadline=trio.current_time() + ENDING):
                await self._mailbox.close()

    async def _run(self, task_status: trio.TaskStatus[None]) -> None:
        try:
            async with trio.open_nursery() as tasks:
                self._tasks = tasks
                try:
                    if self.sharing is not None:
                        self._intake.open([])
                        await tasks.start(self.sharing.run, tasks, self)
                    else:
                        await self._running.start(tasks, self)
                        await self._take_up(self._intake.open)
                    tasks.start_soon(self._look_again)
                    tasks.start_soon(self._follow_schedules)
                    log_info("channels.running", channels=", ".join(self.names))
                    task_status.started()
                    await self._draining.wait()
                    await self._wind_down()
                finally:
                    await self._running.stop()  # not shielded: who cancels wants an end at once
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise unwrap_group(group) from group.__cause__

    def drain(self) -> None:
        """Begin to end: turns under way may finish within `shutdown_grace`, what comes in is only kept."""
        if self.sharing is None:  # else each part of the work is handed over as it ends
            self._intake.close()
            self._dispatcher.close()
        self._draining.set()

    async def _wind_down(self) -> None:
        """Let turns and deliveries come to an end while there is time, then cancel those that have not."""
        if self.sharing is not None:
            with trio.move_on_after(self._grace + ENDING):
                await self.sharing.drain()
            return
        with trio.move_on_after(self._grace) as grace:
            while not (self._approvals.are_only_asking(self._dispatcher.batches_of()) and self._outbox.is_settled):
                with trio.move_on_after(LOOK_AT_TURNS):
                    await self._settling.park()
        if grace.cancelled_caught:
            log_warning("channels.grace_is_over", turns=self.turns, seconds=self._grace)
        elif self.turns:
            log_info("channels.people_are_asked", turns=self.turns)
        self._dispatcher.cancel_all()
        with trio.move_on_after(ENDING):
            while self.turns:
                await self._settling.park()

    def _start_soon(self, function: Callable[..., Any], *args: Any) -> None:
        if self._tasks is not None:
            self._tasks.start_soon(function, *args)

    def _note_settled(self) -> None:
        self._settling.unpark_all()
        if self.sharing is not None:
            self.sharing.note_settled()
        self._intake.look_for_room()

    # What was kept: from before the start, by `bub inbox retry`, and by a disk that took its time.

    async def _take_up(self, hand_on: Callable[[list[Any]], None]) -> None:
        await self._hand_on(await self._ledger.take_up(self._channels), hand_on)

    async def _hand_on(self, found: list[Received], hand_on: Callable[[list[Any]], None]) -> None:
        hand_on([received for received in found if received.attempts < MOST_INTERRUPTIONS])
        for received in found:
            if received.attempts >= MOST_INTERRUPTIONS:
                await self._dispatcher.give_up(received)

    async def _look_again(self) -> None:
        while not self.is_draining:
            await trio.sleep(LOOK_AGAIN)
            try:
                if await self._ledger.has_changed():
                    await self._take_up(self._intake.take_up)
                await self._hand_on(await self._ledger.take_up_left(), self._intake.take_up)
                await self._approvals.look()
            except BubError as error:
                log_exception("inbox.unreadable", error)

    def _lease_of(self, id: Id) -> Lease | None:  # noqa: A002 (what a message in a store is known by)
        return self.sharing.lease_of(id) if self.sharing is not None else None

    def _is_ours(self, id: Id) -> bool:  # noqa: A002
        return self.sharing is None or self.sharing.may_begin(id)

    def _steps_aside(self, batch: Batch, error: BaseException) -> bool:
        return self.sharing is not None and self.sharing.steps_aside(batch, error)

    def _runs(self, channel: str) -> bool:
        """Whether a channel runs here, so that its schedules fire here."""
        if channel not in self._channels:
            return False
        return self.sharing is None or self.sharing.holder.lease_of(f"channel:{channel}") is not None

    async def _follow_schedules(self) -> None:
        """Let schedules fire until all is to end: what is due from then on waits for the next start."""
        if self._scheduler is not None:
            async with trio.open_nursery() as following:
                following.start_soon(self._scheduler.run)
                await self._draining.wait()
                following.cancel_scope.cancel()

    # Taking in.

    async def receive(self, message: Envelope) -> bool:
        """Take a message in: it is kept on disk when this returns, and answered as soon as it can be.

        One whose channel does not run is dropped, with a warning (BEHAVIOURS C5). Returns False if no turn follows: the
        message is dropped, or one of its chat with the same `once` came before and is done with. Raises `BubError` when
        it cannot be kept; the channel must then not tell the other side that it was received.
        """
        return await self._intake.receive(ChannelMessage.of(message))

    async def _receive_by(self, surface: Surface, message: ChannelMessage) -> None:
        """Take in what somebody typed at one of Bub's own surfaces."""
        await self._intake.receive(message, surface)

    def _is_command(self, content: str) -> bool:
        return command_line(content, prefix_of(self._framework.settings)) is not None

    def _overtakes(self, message: ChannelMessage) -> bool:
        return message.kind == COMMAND and is_quit(message.content, self._framework.settings)

    # What channels ask (`Desk`).

    async def answer(self, question: str, is_yes: bool, *, channel: str, by: str) -> TakenAnswer:
        """Take an answer to a question that a channel shows."""
        return await self._approvals.answer(question, is_yes, channel=channel, by=by)

    async def answer_as_operator(self, question: str, is_yes: bool) -> TakenAnswer:
        """Take an answer of the operator, from who has proved to be that one."""
        return await self._approvals.answer_as_operator(question, is_yes)

    async def keep_draft(self, message: ChannelMessage, draft: str) -> None:
        """Remember what a channel notes of an answer: while it is made, or while it is sent."""
        if not await self._outbox.keep_draft(message, str(draft)):
            await self._dispatcher.keep_draft(message, draft)

    def remember(self, channel: str, name: str, value: str) -> None:
        """Keep a note of a channel, before whatever else is kept next."""
        self._mailbox.remember(channel, name, value)

    async def recall(self, channel: str) -> dict[str, str]:
        """Give the notes of a channel."""
        return await self._mailbox.recall(channel)

    def has_replies(self, message: ChannelMessage) -> bool:
        """Whether a reply to the chat of a message waits to be sent."""
        return self._outbox.has_replies(message)

    async def replies_sent(self, message: ChannelMessage) -> None:
        """Wait until none does."""
        await self._outbox.replies_sent(message)

    def cancel_turn(self, session_id: str) -> bool:
        """Cancel what runs in a session and forget what waits for it (BEHAVIOURS C25)."""
        return self._dispatcher.cancel(session_id)

    async def draining(self) -> None:
        """Wait until everything is to end."""
        await self._draining.wait()

    async def settled(self) -> None:
        """Wait until everything that came in so far is answered, and the replies have arrived."""
        while self.waiting or not self._outbox.is_settled:
            await self._settling.park()


def _timing(section: Mapping[str, Any]) -> Timing:
    usual = Timing()
    return Timing(
        _seconds(section, "debounce", usual.debounce),
        _seconds(section, "max_wait", usual.max_wait),
        _seconds(section, "active_window", usual.active_window),
    )


def _seconds(section: Mapping[str, Any], key: str, usual: float) -> float:
    said = section.get(key)
    return (parse_duration(said) if isinstance(said, str) else None) or usual
