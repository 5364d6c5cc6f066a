"""Answering what was taken in: which message gets a turn when, and what becomes of its replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any
from uuid import uuid4

import trio

from bub.base.counts import Counts
from bub.base.failures import is_ordinary
from bub.base.redis.leases import Lease, current_lease
from bub.base.scopes import Scope
from bub.base.waiting import split_cancelled
from bub.channels.channel import Channel
from bub.channels.commands import is_quit
from bub.channels.message import COMMAND, NOWHERE, ChannelMessage
from bub.envelope import Envelope, content_of
from bub.inbox.apology import INTERRUPTED, apology, note_end
from bub.inbox.approvals import Approvals, TurnCalls
from bub.inbox.batch import Batch, as_one, may_steer, profile_named, surface_of, tell_answered, with_draft
from bub.inbox.framework import Framework
from bub.inbox.ledger import Ledger, origin_of
from bub.inbox.schedules.session import SessionSchedules, current_schedules
from bub.inbox.store import Id, InboxStore, Received
from bub.log import log_exception, log_info, log_warning

MOST_INTERRUPTIONS = 3
"""How often a turn is taken again that the end of the process interrupted."""

_NOTING = 10.0
"""How long, in seconds, it may take to note that a turn was cut short while everything is being ended."""


class Dispatcher:
    """Has the messages of the inbox answered, `most` turns at once; if that is None, as many as fit.

    Who waits for whom is the framework's to say. `lease_of` gives the lease under which a message of a shared store is
    answered; None if it is not to begin here. `steps_aside` tells whether a turn failed since the store did.
    `start_soon` starts a task, `settled` is called whenever there may be nothing more to do for now.
    """

    def __init__(
        self,
        framework: Framework,
        ledger: Ledger,
        mailbox: InboxStore,
        channels: Mapping[str, Channel],
        counts: Counts,
        *,
        most: int | None,
        start_soon: Callable[..., Any],
        settled: Callable[[], None],
        approvals: Approvals,
        lease_of: Callable[[Id], Lease | None] = lambda one: None,
        steps_aside: Callable[[Batch, BaseException], bool] = lambda batch, error: False,
    ) -> None:
        self._lease_of, self._steps_aside = lease_of, steps_aside
        self._approvals = approvals
        self._framework = framework
        self._ledger = ledger
        self._mailbox = mailbox
        self._channels = channels
        self._counts = counts
        self._start_soon = start_soon
        self._settled = settled
        self._batches: set[Batch] = set()
        self._let_in: dict[str, list[Batch]] = {}
        self._is_closed = False
        framework.limit_turns(most)

    def __len__(self) -> int:
        """How many turns are under way."""
        return sum(batch.is_running for batch in self._batches)

    def close(self) -> None:
        """Begin to answer nothing any more; what waits is answered after the next start."""
        self._is_closed = True
        for batch in self._batches:
            if not batch.is_running:
                batch.scope.cancel()

    def cancel_all(self) -> None:
        """Cancel what runs; it is answered after the next start."""
        for batch in self._batches:
            batch.scope.cancel()

    def cancel(self, session_id: str, *, before: Id | None = None) -> bool:
        """Cancel what runs in a session and forget what waits for it (BEHAVIOURS C25); says whether there was any.

        What waits on the disk alone is forgotten as far as it came `before` a message, or all of it.
        """
        batches = self._let_in.get(session_id, ())
        for batch in batches:
            batch.is_cancelled = True
            batch.scope.cancel()
        for origin in {origin_of(item.message) for batch in batches for item in batch.items}:
            self._ledger.forget_left(origin, session_id, before)
        return bool(batches)

    def leave(self, is_left: Callable[[Id], bool], *, at_once: bool) -> None:
        """Answer no more of some messages; if it need not be `at_once`, turns under way may end."""
        for batch in self.batches_of(is_left):
            if at_once or not batch.is_running:
                batch.scope.cancel()

    def batches_of(self, is_meant: Callable[[Id], bool] = lambda one: True) -> list[Batch]:
        """Return the batches of some messages that are not over, those that wait included."""
        return [batch for batch in self._batches if any(map(is_meant, batch.ids))]

    async def keep_draft(self, message: ChannelMessage, draft: str) -> None:
        """Remember a channel's name for the message that shows the answer while it is made."""
        batch = next((one for one in self._let_in.get(message.session_id, ()) if one.shows(message)), None)
        if batch is not None:
            batch.message = replace(batch.message, draft=str(draft))
            await self._mailbox.keep_draft(batch.items[0].id, str(draft))

    # From a batch to its answer.

    def hand_on(self, batch: list[Received]) -> None:
        """Have messages answered as one, behind those that came before from the same origin."""
        if self._is_closed:
            return
        if refused := [one for one in batch if not self._is_admitted(one)]:
            self._start_soon(self._refuse, refused)
            batch = [one for one in batch if one not in refused]
        if not batch:
            return
        taken = Batch(batch, as_one(batch), self._is_admitted)
        channel = self._channels[taken.message.channel]
        calls = TurnCalls(self._approvals, channel, taken)
        taken.turn = self._framework.begin(
            taken.message,
            on_event=lambda event, _: taken.tell(channel, event),
            ask=calls.ask if channel.can_ask or channel.shows_questions else None,
            dispatch=partial(self._take_reply, taken),
            steering=taken,
            surface=surface_of(batch),
            complete=partial(taken.complete, channel),
            notes=calls,
            writers=lambda: taken.writers,
            profile=taken.profile,
            request=taken.request,
        )
        self._batches.add(taken)
        self._start_soon(self._see_to, taken)

    async def _see_to(self, batch: Batch) -> None:
        fires = self._channels[batch.message.channel].has_schedules
        current_schedules.set(SessionSchedules(self._mailbox, batch, fires=fires))
        current_lease.set(self._lease_of(batch.ids[0]))
        try:
            with batch.scope:
                try:
                    await self._answer(batch)
                finally:
                    batch.is_over = True
                    await batch.turn.close()
        finally:
            self._leave(batch)
            try:
                await self._put_away(batch)
            finally:
                self._batches.discard(batch)
                del batch.turn  # the two name each other
                self._settled()

    async def _put_away(self, batch: Batch) -> None:
        """See to messages whose turn did not end."""
        if batch.is_done or batch.is_taken:
            return
        if batch.is_cancelled:
            self._start_soon(self._end, batch)
        elif batch.begun:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _NOTING):
                await self._ledger.give_back(batch.begun)

    async def _answer(self, batch: Batch) -> None:
        """Take a turn for messages, with an apology where it fails."""
        began, turn, attending = perf_counter(), batch.turn, Scope()
        outcome, error_id = "", _new_id()
        try:
            await self._arrive(batch)
            if await self._is_moved(batch):
                return
            if not turn.is_over:
                if not await self._wait_for_session(batch):
                    return
                began = perf_counter()
                await batch.attend(self._channels[batch.message.channel], attending)
            outcome = "cancelled"
            result = await turn.answer()
            await attending.close()
            await self._finish(batch)
            outcome = str(result.ended_by or "ok").partition(":")[0]
        except BaseException as error:  # what failed and what was cancelled can come in one group
            await attending.close()
            cancelled, failure = split_cancelled(error)
            if failure is None or not is_ordinary(failure):
                raise
            if self._steps_aside(batch, failure):
                outcome, batch.is_done = "aside", True
                return
            self._counts.failure("turn")
            log_exception("turn.failed", failure, id=error_id, session=turn.session_id)
            if trio.current_effective_deadline() > trio.current_time():
                outcome = "failed"
                in_full = self._channels[batch.message.channel].role == "interface"
                batch.replies.append(apology(batch.message, failure, error_id, in_full=in_full))  # the only one (T30)
                await self._finish(batch)
            elif cancelled is not None:  # it failed since it was cancelled: that is no reason to give it up
                raise cancelled from None
        finally:
            cancelled = failure = None  # their tracebacks name this frame: it and they would keep each other
            if outcome:
                self._counts.turn(turn.profile.name, outcome, turn.trace, perf_counter() - began)
                log_info(
                    "turn.ended",
                    session=turn.session_id,
                    outcome=outcome,
                    replies=len(batch.replies),
                    seconds=round(perf_counter() - began, 3),
                )

    async def _arrive(self, batch: Batch) -> None:
        """Find the session of a batch, behind those that came before from the same origin."""
        turn = batch.turn
        await turn.reach()
        if turn.is_risky:
            await self._begin(batch)
        arrival = batch.items[0].arrival
        await (turn.arrive() if arrival is None else turn.resume(arrival.session_id, arrival.values))
        batch.message = replace(batch.message, session_id=turn.session_id)
        batch.is_running = turn.is_over

    async def _is_moved(self, batch: Batch) -> bool:
        """Move a batch to where its session is answered, if that is elsewhere in a shared store."""
        session_id = batch.message.session_id
        if batch.turn.is_over or batch.items[0].arrival is not None or self._ledger.is_home(batch.ids, session_id):
            return False
        await self._let_wait(batch)
        await self._ledger.move(batch.ids, session_id, batch.turn.write_arrival())
        batch.is_done = True
        return True

    async def _wait_for_session(self, batch: Batch) -> bool:
        """Let a batch have its session, once that is free; False where it gets no turn of its own."""
        turn, session_id = batch.turn, batch.message.session_id
        if self._ledger.is_forgotten(batch.ids, session_id):
            batch.is_cancelled = True
            return False
        let_in = self._let_in.get(session_id, ())
        steering = sum(one.steers is not None and not one.is_running for one in let_in)
        said = await turn.admit(turn.busy(steering))
        action = self._action(batch, said)
        if action == "drop":
            log_info("inbound.dropped", session=session_id, channel=batch.message.channel)
            batch.is_cancelled = True
            return False
        if self._is_quit(batch):
            self.cancel(session_id, before=batch.ids[0])
        if not batch.begun:
            self._ledger.admit(batch.ids)
        let_in = self._let_in.setdefault(session_id, [])
        if action == "steer" and let_in and not may_steer(batch, let_in[0]):
            action = "follow_up"
        if action == "steer" and let_in:
            batch.steers = let_in[0]
            let_in[0].steered.append(batch)
        let_in.append(batch)
        waits = action in ("follow_up", "steer")
        await turn.hold(alone=True if waits else None, on_wait=partial(self._let_wait, batch))
        if self._is_closed:
            return False
        batch.stop_steering()
        if not batch.is_admitted:
            await self._refuse(batch.items)
            batch.is_done = True
            return False
        batch.is_running = True
        if not batch.begun:
            await self._begin(batch)
        return True

    def _is_admitted(self, item: Received) -> bool:
        """Whether its channel would still let a message in; a channel that fails to answer does not.

        A profile that is named has to be there. What a schedule of the file says has no sender to be let in.
        """
        message, firing, named = item.message, item.firing, profile_named(item)
        if named is not None and named not in self._framework.profiles:
            return False
        if firing is not None and not firing.is_own:
            return True
        try:
            return self._channels[message.channel].admits(message)
        except Exception as error:  # noqa: BLE001 (a channel that fails must not end the others)
            log_exception("channel.admits_failed", error, channel=message.channel)
            return False

    async def _refuse(self, items: Sequence[Received]) -> None:
        """Set messages aside that came in when they were still let in."""
        for item in items:
            log_warning("inbound.not_admitted", channel=item.message.channel, chat=item.message.chat_id)
            who = "its writer may not write" if item.firing is None else "its schedule may not fire"
            await self._set_aside(item, f"{who} here any more", [])

    async def _begin(self, batch: Batch) -> None:
        """Count an attempt: one whose turn the end of the process interrupts is not begun for ever."""
        ids = batch.ids
        batch.earlier = await self._ledger.begin(ids)
        batch.begun = ids

    async def _let_wait(self, batch: Batch) -> None:
        """Take back an attempt that was counted early: who waits is not to blame if the process ends."""
        if batch.begun:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _NOTING):
                await self._ledger.let_wait(batch.begun)
            batch.begun = []

    def _action(self, batch: Batch, said: str | None) -> str:
        """What becomes of a message, by what a plugin said of it, or nobody (BEHAVIOURS C18)."""
        is_command = batch.message.kind == COMMAND
        if said == "steer" and is_command:
            return "follow_up"  # it is no part of what is being said
        if said is not None:
            return said
        if batch.turn.profile.is_parallel:
            return "process"
        return "follow_up" if is_command else self._channels[batch.message.channel].when_busy

    def _is_quit(self, batch: Batch) -> bool:
        """Whether a person wants the session to end what it does; the message counts as the pipeline made it."""
        if batch.message.kind != COMMAND:
            return False
        return is_quit(content_of(batch.turn.message), self._framework.settings)

    def _leave(self, batch: Batch) -> None:
        let_in = self._let_in.get(batch.message.session_id)
        if let_in is not None and batch in let_in:
            let_in.remove(batch)
            if not let_in:
                del self._let_in[batch.message.session_id]
        batch.stop_steering()

    async def _finish(self, batch: Batch) -> None:
        batch.is_over = True
        await self._end(batch)
        batch.is_done = True

    async def _end(self, batch: Batch) -> None:
        """Let the messages of a batch leave the inbox, their replies go out, and their channels know."""
        channel = self._channels[batch.message.channel]
        is_shown = channel.role == "interface"  # it shows by itself how an answer ended
        note = [] if is_shown else note_end(batch.message, batch.replies, batch.end)
        replies = batch.complete_drafts([*batch.replies, *note])
        await self._ledger.finish(batch.ids, replies)
        tell_answered(self._channels, batch.items, replies)

    # Replies.

    async def _take_reply(self, batch: Batch, reply: Envelope) -> bool:
        """A reply of a turn: it is sent once the turn is over. False if nobody could deliver it (C26)."""
        message, asked = ChannelMessage.of(reply), batch.message
        goes_back = (message.channel, message.chat_id) == (asked.channel, asked.chat_id)
        target = message.output_channel or (asked.output_channel if goes_back else "") or message.channel
        if target == NOWHERE:
            return True
        message = replace(message, channel=target, output_channel="", lifespan=None)
        if (message.channel, message.chat_id) == (asked.channel, asked.chat_id):
            message = replace(message, answers=message.answers or asked.message_id)
        message = self._mailbox.as_kept(message)  # what cannot be kept fails here, at who is to blame
        if batch.is_over:  # a turn that this one has started goes on behind it
            await self._ledger.finish((), [message])
        else:
            batch.replies.append(message)
        if target not in self._channels:
            log_warning("outbound.undeliverable", channel=target, session=asked.session_id)
        return target in self._channels

    async def give_up(self, received: Received) -> None:
        """Give up a turn that never ended, since it would begin for ever: its sender reads why, the message is kept."""
        error_id = _new_id()
        reason = f"the process ended {received.attempts} times during its turn (error {error_id})"
        log_warning("turn.given_up", id=error_id, channel=received.message.channel, chat=received.message.chat_id)
        self._counts.failure("interrupted")
        await self._set_aside(received, reason, [apology(received.message, INTERRUPTED, error_id, in_full=False)])

    async def _set_aside(self, item: Received, reason: str, replies: Sequence[ChannelMessage]) -> None:
        replies = with_draft(replies, item.message)
        if await self._ledger.give_up(item, reason, replies):
            tell_answered(self._channels, [item], replies)


def _new_id() -> str:
    return uuid4().hex[:8]
