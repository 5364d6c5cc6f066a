"""Answering what was taken in: which message gets a turn when, and what becomes of its replies."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any, Protocol
from uuid import uuid4

import trio

from bub.admission import Admission
from bub.asking import Ask, Question
from bub.builtin.commands import command_line, prefix_of
from bub.channels.apology import INTERRUPTED, apology
from bub.channels.channel import Channel
from bub.channels.failing import is_ordinary
from bub.channels.ledger import Ledger
from bub.channels.mailbox import Mailbox, Received
from bub.channels.message import COMMAND, NOWHERE, ChannelMessage, joined
from bub.channels.reception import Origin
from bub.counts import Counts
from bub.envelope import Envelope
from bub.log import log_exception, log_info, log_warning
from bub.scopes import Scope
from bub.streaming import StreamEvent

MOST_INTERRUPTIONS = 3
"""How often a turn is taken again that the end of the process interrupted."""

_NOTING = 10.0
"""How long, in seconds, it may take to note that a turn was cut short while everything is being ended."""

_QUIT = ("quit", "exit")


class Framework(Protocol):
    """What is asked of the framework."""

    @property
    def settings(self) -> Mapping[str, Any]: ...

    def get_channels(self, message_handler: Callable[[Envelope], Awaitable[None]]) -> dict[str, Any]: ...

    async def process_inbound(
        self,
        message: Envelope,
        stream_output: bool = False,
        on_event: Callable[[StreamEvent, Envelope], Any] | None = None,
        *,
        ask: Ask | None = None,
        dispatch: Callable[[Envelope], Awaitable[bool]] | None = None,
        steering: Any = None,
    ) -> Any: ...

    async def session_of(self, message: Envelope) -> str: ...

    async def admit(self, session_id: str, message: Envelope, turn: Admission) -> str | None: ...

    def profile_of(self, message: Envelope) -> str: ...

    def is_parallel(self, message: Envelope) -> bool: ...

    async def report(self, stage: str, error: Exception, message: Envelope) -> None: ...


@dataclass(eq=False, slots=True)
class _TurnUnderWay:
    """A turn that answers some messages of the inbox: what it has brought so far, and what it is to hear of."""

    items: list[Received]
    message: ChannelMessage
    replies: list[ChannelMessage] = field(default_factory=list)
    steered: deque[list[Received]] = field(default_factory=deque)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    begun: list[int] = field(default_factory=list)
    """The messages for which an attempt was counted."""
    is_cancelled: bool = False
    """Whether a person wanted it to end, so that it is done with."""
    is_over: bool = False
    """Whether its replies are on their way, so that one that comes now goes by itself."""
    is_done: bool = False
    """Whether its messages have left the inbox."""

    def take(self) -> list[ChannelMessage]:
        """What came in since and is meant for this turn; it is answered by it from now on (BEHAVIOURS C21)."""
        if self.is_over:
            return []
        batches, self.steered = self.steered, deque()
        self.items += [item for batch in batches for item in batch]
        return [joined([item.message for item in batch]) for batch in batches]

    def shows(self, message: ChannelMessage) -> bool:
        """Whether a message is the one that this turn answers."""
        asked = self.message
        return (asked.channel, asked.chat_id, asked.message_id or asked.content) == (
            message.channel,
            message.chat_id,
            message.message_id or message.content,
        )

    @property
    def ids(self) -> list[int]:
        return [item.id for item in self.items]


@dataclass(eq=False, slots=True)
class _Session:
    """What runs and what waits in one session."""

    turns: list[_TurnUnderWay] = field(default_factory=list)
    pending: deque[tuple[list[Received], ChannelMessage]] = field(default_factory=deque)

    @property
    def admission(self) -> Admission:
        steered = sum(len(turn.steered) for turn in self.turns)
        return Admission(bool(self.turns), len(self.turns), len(self.pending), steered)

    def take_back(self, steered: Sequence[list[Received]]) -> None:
        """Let what could not be said to a turn wait for the next one (C21), at its place in the order it came."""
        waiting = [*((batch, _as_one(batch)) for batch in steered), *self.pending]
        self.pending = deque(sorted(waiting, key=lambda one: one[0][0].id))


class Turns:
    """Takes the turns that answer messages: in order in each session, sessions side by side, `most` of them at once.

    `start_soon` starts a task, `settled` is called whenever there may be nothing more to do for now.
    """

    def __init__(
        self,
        framework: Framework,
        ledger: Ledger,
        mailbox: Mailbox,
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
        self._room = trio.CapacityLimiter(most)
        self._start_soon = start_soon
        self._settled = settled
        self._batches: dict[Origin, deque[list[Received]]] = {}
        self._sessions: dict[str, _Session] = {}
        self._is_closed = False

    def __len__(self) -> int:
        """How many turns are under way, those that wait for room included."""
        return sum(len(session.turns) for session in self._sessions.values())

    def close(self) -> None:
        """Begin no turn any more."""
        self._is_closed = True

    def cancel_all(self) -> None:
        """Cancel what runs; it is answered after the next start."""
        for session in self._sessions.values():
            for turn in session.turns:
                turn.scope.cancel()

    def cancel(self, session_id: str) -> bool:
        """Cancel what runs in a session and forget what waits for it (BEHAVIOURS C25); says whether there was any."""
        session = self._sessions.get(session_id)
        if session is None:
            return False
        forgotten = [item for batch, _ in session.pending for item in batch]
        session.pending.clear()
        for turn in session.turns:
            forgotten += [item for batch in turn.steered for item in batch]
            turn.steered.clear()
            turn.is_cancelled = True
            turn.scope.cancel()
        if forgotten:
            self._forget(forgotten)
        return bool(session.turns or forgotten)

    async def keep_draft(self, message: ChannelMessage, draft: str) -> None:
        """Remember a channel's name for the message that shows the answer while it is made."""
        session = self._sessions.get(message.session_id)
        turn = next((turn for turn in session.turns if turn.shows(message)), None) if session is not None else None
        if turn is not None:
            turn.message = replace(turn.message, draft=str(draft))
            await self._mailbox.keep_draft(turn.items[0].id, str(draft))

    def _forget(self, items: Sequence[Received]) -> None:
        """Done with messages that get no turn."""
        self._start_soon(self._ledger.finish, [item.id for item in items])

    # Admitting: one batch of an origin after another, so that they keep their order.

    def hand_on(self, origin: Origin, batch: list[Received]) -> None:
        """Have a batch answered as one, behind those that came before from the same origin."""
        batches = self._batches.get(origin)
        if batches is not None:
            batches.append(batch)
            return
        self._batches[origin] = deque([batch])
        self._start_soon(self._admit_all, origin)

    async def _admit_all(self, origin: Origin) -> None:
        batches = self._batches[origin]
        try:
            while batches and not self._is_closed:
                batch = batches.popleft()
                try:
                    await self._admit(batch)
                except BaseException as error:
                    if not is_ordinary(error):
                        raise
                    # The next ones are to be answered all the same (C17).
                    error_id, message = _new_id(), _as_one(batch)
                    log_exception("inbound.failed", error, id=error_id, channel=message.channel, chat=message.chat_id)
                    sorry = self._apology(message, error, error_id)
                    await self._ledger.finish([item.id for item in batch], _with_draft([sorry], message))
        finally:
            del self._batches[origin]

    async def _admit(self, batch: list[Received]) -> None:
        message = _as_one(batch)
        session_id = await self._framework.session_of(message)
        message = replace(message, session_id=session_id)
        session = self._sessions.setdefault(session_id, _Session())
        try:
            said = await self._framework.admit(session_id, message, session.admission)
            session = self._sessions.setdefault(session_id, session)  # it may have come to rest meanwhile
            action = self._action(message, said)
            if message.kind == COMMAND and action != "drop" and self._is_quit(message):
                self.cancel(session_id)
            if action == "drop":
                log_info("inbound.dropped", session=session_id, channel=message.channel)
                self._forget(batch)
            elif action == "steer" and session.turns:
                session.turns[0].steered.append([replace(item, message=_of_session(item, message)) for item in batch])
            elif action in ("follow_up", "steer") and session.turns:
                session.pending.append((batch, message))
            else:
                self._begin(session, batch, message)
        finally:
            self._forget_session(session_id)

    def _action(self, message: ChannelMessage, said: str | None) -> str:
        """What becomes of a message, by what a plugin said of it, or nobody (BEHAVIOURS C18)."""
        is_command = message.kind == COMMAND
        if said == "steer" and is_command:
            return "follow_up"  # it is no part of what is being said
        if said is not None:
            return said
        if self._framework.is_parallel(message):
            return "process"
        return "follow_up" if is_command else self._channels[message.channel].when_busy

    def _is_quit(self, message: ChannelMessage) -> bool:
        line = command_line(message.content, prefix_of(self._framework.settings))
        return line is not None and line.split(maxsplit=1)[:1] in ([word] for word in _QUIT)

    def _forget_session(self, session_id: str) -> None:
        session = self._sessions.get(session_id)
        if session is not None and not session.turns and not session.pending:
            del self._sessions[session_id]

    # Turns.

    def _begin(self, session: _Session, batch: list[Received], message: ChannelMessage) -> None:
        turn = _TurnUnderWay(batch, message)
        session.turns.append(turn)
        self._start_soon(self._take_turn, session, turn)

    async def _take_turn(self, session: _Session, turn: _TurnUnderWay) -> None:
        try:
            with turn.scope:
                async with self._room:
                    if not self._is_closed:
                        await self._answer(turn)
        finally:
            await self._close_turn(turn)
            session.turns.remove(turn)
            session.take_back(turn.steered)
            if not session.turns and session.pending and not self._is_closed:
                self._begin(session, *session.pending.popleft())
            self._forget_session(turn.message.session_id)
            self._settled()

    async def _close_turn(self, turn: _TurnUnderWay) -> None:
        """See to the messages of a turn that did not come to its end."""
        if turn.is_done:
            return
        turn.is_over = True
        if turn.is_cancelled:
            self._start_soon(self._ledger.finish, turn.ids, _with_draft(turn.replies, turn.message))
        elif turn.begun:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _NOTING):
                await self._ledger.give_back(turn.begun)

    async def _answer(self, turn: _TurnUnderWay) -> None:
        """Take a turn, and answer its messages, with an apology where it fails."""
        began = perf_counter()
        profile, outcome, trace = "", "cancelled", ()
        error_id, attending = _new_id(), Scope()
        try:
            profile = self._framework.profile_of(turn.message)
            await self._mailbox.begin(turn.ids)
            turn.begun = turn.ids
            channel = self._channels[turn.message.channel]
            await self._attend(channel, turn.message, attending)
            await self._prepare(channel, turn)
            result = await self._framework.process_inbound(
                turn.message,
                stream_output=True,
                on_event=lambda event, _: channel.on_event(event, turn.message),
                ask=partial(_ask, channel, turn) if channel.can_ask else None,
                dispatch=partial(self._take_reply, turn),
                steering=turn,
            )
            profile, trace = result.profile, result.trace
            await attending.close()
            await self._finish(turn)
            outcome = str(result.ended_by or "ok").partition(":")[0]
        except BaseException as error:  # what failed and what was cancelled can come in one group
            await attending.close()
            cancelled, failure = _parted(error)
            if failure is None or not is_ordinary(failure):
                raise
            self._counts.failure("turn")
            log_exception("turn.failed", failure, id=error_id, session=turn.message.session_id)
            if trio.current_effective_deadline() > trio.current_time():
                outcome = "failed"
                turn.replies.append(self._apology(turn.message, failure, error_id))
                await self._finish(turn)
            elif cancelled is not None:  # it failed since it was cancelled: that is no reason to give it up
                raise cancelled from None
        finally:
            self._counts.turn(profile, outcome, trace, perf_counter() - began)
            log_info(
                "turn.ended",
                session=turn.message.session_id,
                outcome=outcome,
                replies=len(turn.replies),
                seconds=round(perf_counter() - began, 3),
            )

    async def _attend(self, channel: Channel, message: ChannelMessage, attending: Scope) -> None:
        """Let the channel show that somebody is at it; that it cannot does not keep the answer."""
        try:
            manager = channel.attending(message)
            if manager is not None:
                await attending.enter(manager)
        except Exception as error:  # noqa: BLE001
            log_exception("channel.attending_failed", error, channel=channel.name)

    async def _prepare(self, channel: Channel, turn: _TurnUnderWay) -> None:
        """Let the channel complete the message; where it is to be answered is not the channel's to change."""
        try:
            message: Any = await channel.prepare(turn.message)
            if not isinstance(message, ChannelMessage):
                raise TypeError(f"`prepare` of the channel `{channel.name}` must return a message, not {message!r:.80}")
        except Exception as error:
            await self._framework.report("turn", error, turn.message)  # before the turn that would tell (T29)
            raise
        asked = turn.message
        turn.message = replace(
            message, channel=asked.channel, chat_id=asked.chat_id, session_id=asked.session_id, draft=asked.draft
        )

    async def _finish(self, turn: _TurnUnderWay) -> None:
        turn.is_over = True
        await self._ledger.finish(turn.ids, _with_draft(turn.replies, turn.message))
        turn.is_done = True

    # Replies.

    async def _take_reply(self, turn: _TurnUnderWay, reply: Envelope) -> bool:
        """A reply of a turn: it is sent once the turn is over. False where nobody could deliver it (C26)."""
        message = ChannelMessage.of(reply)
        target = message.output_channel or message.channel
        if target == NOWHERE:
            return True
        asked = turn.message
        message = replace(message, channel=target, output_channel="", lifespan=None)
        if (message.channel, message.chat_id) == (asked.channel, asked.chat_id):
            message = replace(message, answers=message.answers or asked.message_id)
        message = self._mailbox.as_kept(message)  # what cannot be kept fails here, at who is to blame
        if turn.is_over:  # a turn that this one has started goes on behind it
            await self._ledger.finish((), [message])
        else:
            turn.replies.append(message)
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


async def _ask(channel: Channel, turn: _TurnUnderWay, question: Question) -> bool:
    return await channel.ask(question, turn.message)


def _as_one(batch: Sequence[Received]) -> ChannelMessage:
    """The message that a batch comes to, with what an interrupted turn left of its answer."""
    message = joined([item.message for item in batch])
    draft = next((item.message.draft for item in batch if item.message.draft), "")
    return replace(message, draft=draft)


def _of_session(item: Received, message: ChannelMessage) -> ChannelMessage:
    return replace(item.message, session_id=message.session_id)


def _with_draft(replies: Sequence[ChannelMessage], asked: ChannelMessage) -> Sequence[ChannelMessage]:
    """The replies to a message, of which the first one to its chat completes what was shown while it was made."""
    for index, reply in enumerate(replies):
        if (reply.channel, reply.chat_id) == (asked.channel, asked.chat_id):
            return [*replies[:index], replace(reply, draft=reply.draft or asked.draft), *replies[index + 1 :]]
    return replies


def _parted(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """The cancellation in what ended a turn, and the failure; each None where there is none."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)
    return (error, None) if isinstance(error, trio.Cancelled) else (None, error)


def _new_id() -> str:
    return uuid4().hex[:8]
