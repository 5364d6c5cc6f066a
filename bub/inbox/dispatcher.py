"""Answering what was taken in: which message gets a turn when, and what becomes of its replies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any, Protocol
from uuid import uuid4

import trio

from bub.asking import Ask, Question
from bub.base.cancellation import split_cancelled
from bub.base.counts import Counts
from bub.base.failures import is_ordinary
from bub.base.scopes import Scope
from bub.base.surfaces import Surface
from bub.channels.channel import Channel
from bub.channels.commands import command_line, prefix_of
from bub.channels.message import COMMAND, NOWHERE, ChannelMessage, joined
from bub.envelope import Envelope, content_of
from bub.hooks.admission import Admission
from bub.inbox.apology import INTERRUPTED, apology
from bub.inbox.ledger import Ledger
from bub.inbox.store import InboxStore, Received
from bub.log import log_exception, log_info, log_warning
from bub.streaming import StreamEvent

MOST_INTERRUPTIONS = 3
"""How often a turn is taken again that the end of the process interrupted."""

_NOTING = 10.0
"""How long, in seconds, it may take to note that a turn was cut short while everything is being ended."""

_QUIT = ("quit", "exit")


class MessageTurn(Protocol):
    """What is asked of the turn of one message, from its arrival to its answer."""

    @property
    def session_id(self) -> str: ...

    @property
    def message(self) -> Envelope: ...

    @property
    def is_over(self) -> bool: ...

    @property
    def profile(self) -> Profile: ...

    @property
    def trace(self) -> Any: ...

    async def arrive(self) -> None: ...

    def busy(self, steering: int = 0) -> Admission: ...

    async def admit(self, busy: Admission) -> str | None: ...

    async def hold(self, *, alone: bool | None = None) -> None: ...

    async def answer(self) -> Any: ...

    async def close(self) -> None: ...


class Profile(Protocol):
    """What is asked of the profile that a turn runs in."""

    @property
    def name(self) -> str: ...

    @property
    def is_parallel(self) -> bool: ...


class Framework(Protocol):
    """What is asked of the framework."""

    @property
    def settings(self) -> Mapping[str, Any]: ...

    def get_channels(self, message_handler: Callable[[Envelope], Awaitable[None]]) -> dict[str, Any]: ...

    def begin(
        self,
        message: Envelope,
        *,
        on_event: Callable[[StreamEvent, Envelope], Any] | None = None,
        ask: Ask | None = None,
        dispatch: Callable[[Envelope], Awaitable[bool]] | None = None,
        steering: Any = None,
        surface: Surface = Surface.PROGRAM,
        complete: Callable[[Envelope], Awaitable[Envelope]] | None = None,
    ) -> MessageTurn: ...

    def limit_turns(self, most: int) -> None: ...


@dataclass(eq=False, slots=True)
class _Batch:
    """Messages of the inbox that are answered as one: how far that has come, and what it has brought."""

    items: list[Received]
    message: ChannelMessage
    """What they come to; with its session once that is known."""
    turn: MessageTurn = field(init=False)
    steers: _Batch | None = None
    """The batch whose turn may take this one while it waits."""
    steered: list[_Batch] = field(default_factory=list)
    """Those that wait so that this one's turn may take them."""
    replies: list[ChannelMessage] = field(default_factory=list)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    begun: list[int] = field(default_factory=list)
    """The messages for which an attempt was counted."""
    is_running: bool = False
    """Whether its session is its own, so that it is being answered."""
    is_taken: bool = False
    """Whether another turn has taken it, and answers it."""
    is_cancelled: bool = False
    """Whether nobody wants an answer any more, so that it is done with."""
    is_over: bool = False
    """Whether its replies are on their way, so that one that comes now goes by itself."""
    is_done: bool = False
    """Whether its messages have left the inbox."""

    def take(self) -> list[Envelope]:
        """What came in since and is meant for this turn; it is answered by it from now on (BEHAVIOURS C21)."""
        taken: list[Envelope] = []
        while self.steered and not self.is_over:
            batch = self.steered.pop(0)
            batch.is_taken = True
            batch.scope.cancel()  # it waits no longer, and its own turn cleans up
            self.items += batch.items
            taken.append(batch.turn.message)
        return taken

    def shows(self, message: ChannelMessage) -> bool:
        """Whether a message is the one that is answered here."""
        asked = self.message
        return (asked.channel, asked.chat_id, asked.message_id or asked.content) == (
            message.channel,
            message.chat_id,
            message.message_id or message.content,
        )

    @property
    def ids(self) -> list[int]:
        return [item.id for item in self.items]


class Turns:
    """Has the messages of the inbox answered, `most` turns at once; who waits for whom is the framework's to say.

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
        most: int,
        start_soon: Callable[..., Any],
        settled: Callable[[], None],
    ) -> None:
        self._framework = framework
        self._ledger = ledger
        self._mailbox = mailbox
        self._channels = channels
        self._counts = counts
        self._start_soon = start_soon
        self._settled = settled
        self._batches: set[_Batch] = set()
        self._let_in: dict[str, list[_Batch]] = {}
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

    def cancel(self, session_id: str) -> bool:
        """Cancel what runs in a session and forget what waits for it (BEHAVIOURS C25); says whether there was any."""
        batches = self._let_in.get(session_id, ())
        for batch in batches:
            batch.is_cancelled = True
            batch.scope.cancel()
        return bool(batches)

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
        taken = _Batch(batch, _as_one(batch))
        channel = self._channels[taken.message.channel]
        taken.turn = self._framework.begin(
            taken.message,
            on_event=lambda event, _: channel.on_event(event, taken.message),
            ask=partial(_ask, channel, taken) if channel.can_ask else None,
            dispatch=partial(self._take_reply, taken),
            steering=taken,
            surface=_surface_of(batch),
            complete=partial(_complete, channel, taken),
        )
        self._batches.add(taken)
        self._start_soon(self._see_to, taken)

    async def _see_to(self, batch: _Batch) -> None:
        try:
            with batch.scope:
                try:
                    await self._answer(batch)
                finally:
                    batch.is_over = True
                    await batch.turn.close()
        finally:
            self._batches.discard(batch)
            self._leave(batch)
            await self._put_away(batch)
            self._settled()

    async def _put_away(self, batch: _Batch) -> None:
        """See to messages whose turn did not come to its end."""
        if batch.is_done or batch.is_taken:
            return
        if batch.is_cancelled:
            self._start_soon(self._ledger.finish, batch.ids, _with_draft(batch.replies, batch.message))
        elif batch.begun:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _NOTING):
                await self._ledger.give_back(batch.begun)

    async def _answer(self, batch: _Batch) -> None:
        """Take a turn for messages, with an apology where it fails."""
        began, turn, attending = perf_counter(), batch.turn, Scope()
        outcome, error_id = "", _new_id()
        try:
            await self._arrive(batch)
            if not turn.is_over:
                if not await self._wait_for_session(batch):
                    return
                began = perf_counter()
                await self._attend(self._channels[batch.message.channel], batch.message, attending)
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
            self._counts.failure("turn")
            log_exception("turn.failed", failure, id=error_id, session=batch.message.session_id)
            if trio.current_effective_deadline() > trio.current_time():
                outcome = "failed"
                batch.replies.append(self._apology(batch.message, failure, error_id))
                await self._finish(batch)
            elif cancelled is not None:  # it failed since it was cancelled: that is no reason to give it up
                raise cancelled from None
        finally:
            if outcome:
                self._counts.turn(turn.profile.name, outcome, turn.trace, perf_counter() - began)
                log_info(
                    "turn.ended",
                    session=batch.message.session_id,
                    outcome=outcome,
                    replies=len(batch.replies),
                    seconds=round(perf_counter() - began, 3),
                )

    async def _arrive(self, batch: _Batch) -> None:
        """Find the session of a batch, behind those that came before from the same origin."""
        turn = batch.turn
        await turn.arrive()
        batch.message = replace(batch.message, session_id=turn.session_id)
        batch.is_running = turn.is_over

    async def _wait_for_session(self, batch: _Batch) -> bool:
        """Let a batch have its session, once that is free; False where it gets no turn of its own."""
        turn, session_id = batch.turn, batch.message.session_id
        let_in = self._let_in.get(session_id, ())
        steering = sum(one.steers is not None and not one.is_running for one in let_in)
        said = await turn.admit(turn.busy(steering))
        action = self._action(batch, said)
        if action == "drop":
            log_info("inbound.dropped", session=session_id, channel=batch.message.channel)
            batch.is_cancelled = True
            return False
        if self._is_quit(batch):
            self.cancel(session_id)
        self._ledger.admit(batch.ids)
        let_in = self._let_in.setdefault(session_id, [])
        if action == "steer" and let_in:
            batch.steers = let_in[0]
            let_in[0].steered.append(batch)
        let_in.append(batch)
        waits = action in ("follow_up", "steer")
        await turn.hold(alone=True if waits else None)
        if self._is_closed:
            return False
        if batch.steers is not None and batch in batch.steers.steered:
            batch.steers.steered.remove(batch)
        batch.is_running = True
        ids = batch.ids
        await self._ledger.begin(ids)  # one whose turn the end of the process interrupts is not begun for ever
        batch.begun = ids
        return True

    def _action(self, batch: _Batch, said: str | None) -> str:
        """What becomes of a message, by what a plugin said of it, or nobody (BEHAVIOURS C18)."""
        is_command = batch.message.kind == COMMAND
        if said == "steer" and is_command:
            return "follow_up"  # it is no part of what is being said
        if said is not None:
            return said
        if batch.turn.profile.is_parallel:
            return "process"
        return "follow_up" if is_command else self._channels[batch.message.channel].when_busy

    def _is_quit(self, batch: _Batch) -> bool:
        """Whether a person wants the session to end what it does; the message counts as the pipeline made it."""
        if batch.message.kind != COMMAND:
            return False
        line = command_line(content_of(batch.turn.message), prefix_of(self._framework.settings))
        return line is not None and line.split(maxsplit=1)[:1] in ([word] for word in _QUIT)

    def _leave(self, batch: _Batch) -> None:
        let_in = self._let_in.get(batch.message.session_id)
        if let_in is not None and batch in let_in:
            let_in.remove(batch)
            if not let_in:
                del self._let_in[batch.message.session_id]
        if batch.steers is not None and batch in batch.steers.steered:
            batch.steers.steered.remove(batch)

    async def _attend(self, channel: Channel, message: ChannelMessage, attending: Scope) -> None:
        """Let the channel show that somebody is at it; that it cannot does not keep the answer."""
        try:
            manager = channel.attending(message)
            if manager is not None:
                await attending.enter(manager)
        except Exception as error:  # noqa: BLE001
            log_exception("channel.attending_failed", error, channel=channel.name)

    async def _finish(self, batch: _Batch) -> None:
        batch.is_over = True
        await self._ledger.finish(batch.ids, _with_draft(batch.replies, batch.message))
        batch.is_done = True

    # Replies.

    async def _take_reply(self, batch: _Batch, reply: Envelope) -> bool:
        """A reply of a turn: it is sent once the turn is over. False where nobody could deliver it (C26)."""
        message = ChannelMessage.of(reply)
        target = message.output_channel or message.channel
        if target == NOWHERE:
            return True
        asked = batch.message
        message = replace(message, channel=target, output_channel="", lifespan=None)
        if (message.channel, message.chat_id) == (asked.channel, asked.chat_id):
            message = replace(message, answers=message.answers or asked.message_id)
        message = self._mailbox.as_kept(message)  # what cannot be kept fails here, at who is to blame
        if batch.is_over:  # a turn that this one has started goes on behind it
            await self._ledger.finish((), [message])
        else:
            batch.replies.append(message)
        if target in self._channels:
            return True
        log_warning("outbound.undeliverable", channel=target, session=asked.session_id)
        return False

    def _apology(self, message: ChannelMessage, error: BaseException, error_id: str) -> ChannelMessage:
        """The one error reply to messages whose turn failed (T30)."""
        in_full = self._channels[message.channel].role == "interface"
        return apology(message, error, error_id, in_full=in_full)

    async def give_up(self, received: Received) -> None:
        """A turn that never came to its end would be begun for ever: who wrote is told, the message is kept."""
        error_id = _new_id()
        reason = f"its turn was interrupted {received.attempts} times by the end of the process (error {error_id})"
        log_warning("turn.given_up", id=error_id, channel=received.message.channel, chat=received.message.chat_id)
        self._counts.failure("interrupted")
        sorry = apology(received.message, INTERRUPTED, error_id, in_full=False)
        await self._ledger.give_up(received, reason, _with_draft([sorry], received.message))


async def _ask(channel: Channel, batch: _Batch, question: Question) -> bool:
    return await channel.ask(question, batch.message)


async def _complete(channel: Channel, batch: _Batch, came: Envelope) -> Envelope:
    """Let the channel complete a message that came; where it is to be answered is not the channel's to change."""
    message: Any = await channel.prepare(batch.message)
    if not isinstance(message, ChannelMessage):
        raise TypeError(f"`prepare` of the channel `{channel.name}` must return a message, not {message!r:.80}")
    asked = batch.message
    batch.message = replace(
        message, channel=asked.channel, chat_id=asked.chat_id, session_id=asked.session_id, draft=asked.draft
    )
    return replace(batch.message, session_id=came.session_id)


def _as_one(batch: Sequence[Received]) -> ChannelMessage:
    """The message that a batch comes to, with what an interrupted turn left of its answer."""
    message = joined([item.message for item in batch])
    draft = next((item.message.draft for item in batch if item.message.draft), "")
    return replace(message, draft=draft)


def _surface_of(items: Sequence[Received]) -> Surface:
    """Who handed over what a turn answers; what only one of several typed, nobody typed."""
    surfaces = {item.surface for item in items}
    return surfaces.pop() if len(surfaces) == 1 else Surface.CHANNEL


def _with_draft(replies: Sequence[ChannelMessage], asked: ChannelMessage) -> Sequence[ChannelMessage]:
    """The replies to a message, of which the first one to its chat completes what was shown while it was made."""
    for index, reply in enumerate(replies):
        if (reply.channel, reply.chat_id) == (asked.channel, asked.chat_id):
            return [*replies[:index], replace(reply, draft=reply.draft or asked.draft), *replies[index + 1 :]]
    return replies


def _new_id() -> str:
    return uuid4().hex[:8]
