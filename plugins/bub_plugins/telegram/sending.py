"""What the agent says, on its way to Telegram: split, styled, with its media, and each part of it only once."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TypeVar

import trio
from telegram import Bot
from telegram.error import BadRequest, Forbidden, RetryAfter, TelegramError

from bub.channels import ChannelMessage, TryLaterError, UndeliverableError
from bub.errors import BubError
from bub.log import log_warning
from bub.streaming import StreamEvent
from bub_plugins.telegram.drafts import FIRST_AFTER, DraftDesk, DraftMessage, number_of
from bub_plugins.telegram.limits import PATIENCE, ChatAddress, Pace
from bub_plugins.telegram.lost import KnownMessages, Lost, Progress
from bub_plugins.telegram.markup import Styled
from bub_plugins.telegram.steps import NO_TEXT, Media, Text, instead_of, load, steps_of
from bub_plugins.telegram.writing import PLACEHOLDER, GoneError, Writer, may_have_arrived, seconds_of

T = TypeVar("T")

_ERROR = "error"
_TRIES = 3
_MOST_UNFINISHED = 1_000
_TURN_ENDING = 20.0


@dataclass(slots=True)
class _Sending:
    """A reply on its way: what it consists of, how much of that has arrived, and the draft that it completes.

    `lost_draft` is a placeholder that may be there, `lost` a message that may have arrived: the next step. Where what
    was said in the draft stays, that is one step `before` the reply's own. `texts` is how many of these are texts,
    before any media, and `noted` what is on the disk of how far they have come.
    """

    steps: list[Text | Media]
    draft: int | None = None
    lost_draft: Lost | None = None
    done: int = 0
    lost: Lost | None = None
    before: int = 0
    noted: str = ""
    texts: int = field(init=False)

    def __post_init__(self) -> None:
        self.texts = sum(isinstance(step, Text) for step in self.steps) - self.before


class Sender:
    """Sends replies, and shows answers while they are made if `stream` is on.

    `bot` speaks to Telegram, `start_soon` starts a task that ends with the channel.
    A reply that has to be tried again goes on behind the part of it that had arrived.
    """

    def __init__(
        self,
        bot: Bot,
        *,
        stream: bool,
        start_soon: Callable[..., object],
        desk: DraftDesk,
        known: KnownMessages,
        first_after: float = FIRST_AFTER,
    ) -> None:
        self._writer = self.writer = Writer(bot, Pace(), known)
        self.stream = stream
        self._start_soon = start_soon
        self._desk = desk
        self._first_after = first_after
        self._drafts: dict[tuple[str, str], DraftMessage] = {}
        self._unfinished: dict[str, _Sending] = {}

    def note(self, where: ChatAddress, message_id: int) -> None:
        """Remember a message of a chat, whoever wrote it."""
        self._writer.note(where, message_id)

    # Answers while they are made.

    def on_event(self, event: StreamEvent, message: ChannelMessage) -> None:
        """Take note of an event of the answer to `message`; what it changes is shown by a task."""
        if not self.stream or not message.message_id or message.output_channel or not DraftMessage.shows(event):
            return
        draft = self._drafts.get(_answer_to(message))
        if draft is None:
            draft = DraftMessage(message, self._writer, self._desk, first_after=self._first_after)
            self._drafts[_answer_to(message)] = draft
            draft.begin(self._start_soon)
        draft.tell(event)

    async def turn_over(self, message: ChannelMessage) -> None:
        """Called when the turn that answers `message` has ended, however it did.

        When this returns, the draft's id is on disk and nothing of it is under way. The reply takes its place: a blank
        one if there is no other.
        """
        draft = self._drafts.get(_answer_to(message))
        if draft is None:
            return
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _TURN_ENDING):
            await draft.close()
        if draft.message_id is None and draft.lost is None:  # nothing is shown
            self._drafts.pop(_answer_to(message), None)

    # Replies.

    async def send(self, message: ChannelMessage) -> None:
        """Deliver one reply: into its draft if it has one, in as many messages as it takes.

        Blank content without media is skipped (BEHAVIOURS C32), and leaves of its draft what was said. Raises
        `UndeliverableError` where Telegram will never take it, `TryLaterError` if it wants a longer pause; the
        network's errors are the library's own.
        """
        known = replace(message, draft="").as_dict()  # its draft is what is noted of it meanwhile
        name = sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()
        sending = self._unfinished.get(name)
        if sending is None:
            sending = await self._begin(message)
            self._unfinished[name] = sending
            if len(self._unfinished) > _MOST_UNFINISHED:
                del self._unfinished[next(iter(self._unfinished))]
        where = ChatAddress.of(message.chat_id)
        answers = number_of(message.answers) if where.is_group else None
        try:
            await self._find_draft(where, sending)
            if sending.draft is not None and not (sending.steps and isinstance(sending.steps[0], Text)):
                await self._clear_draft(where, sending)
            while sending.done < len(sending.steps):
                await self._step(message, sending, answers if sending.done == sending.before else None)
        except TelegramError as error:
            if not isinstance(error, Forbidden) and not _is_refusal(error):
                raise
            self._unfinished.pop(name, None)
            if len(sending.steps) == sending.before:  # nothing was to be said
                return
            raise UndeliverableError(f"Telegram does not take it for the chat {where.chat}: {error.message}") from error
        self._unfinished.pop(name, None)
        self._writer.settle(where)  # in one step with the reply being delivered, which comes next

    async def _begin(self, message: ChannelMessage) -> _Sending:
        """Begin a reply: close its draft, even one that began too late for the reply to name it, and plan its steps."""
        if (progress := Progress.named(message.draft)) is not None:
            return _Sending(steps_of(message, can_caption=False), done=progress.done, lost=progress.lost)
        draft, lost, said = number_of(message.draft), Lost.named(message.draft), NO_TEXT
        for answer_to, shown in list(self._drafts.items()):
            is_its = answer_to[1] == message.answers or (draft is not None and shown.message_id == draft)
            if answer_to[0] == message.chat_id and is_its:
                del self._drafts[answer_to]
                await shown.close()
                draft = draft if draft is not None else shown.message_id
                lost, said = lost or shown.lost, shown.said
        if said.text and (message.kind == _ERROR or not steps_of(message, can_caption=False)):
            return _Sending([Text(said), *steps_of(message, can_caption=True)], draft, before=1)
        lost = lost if draft is None else None
        return _Sending(steps_of(message, can_caption=draft is None and lost is None), draft, lost)

    async def _find_draft(self, where: ChatAddress, sending: _Sending) -> None:
        """Find a placeholder that may be there though nobody heard of it: it becomes the draft."""
        if (lost := sending.lost_draft) is not None:
            sending.draft = await self._obey_pauses(lambda: self._writer.find(where, lost, Styled(PLACEHOLDER)))
            sending.lost_draft = None

    async def _clear_draft(self, where: ChatAddress, sending: _Sending) -> None:
        """Remove a draft that no text takes the place of."""
        draft = sending.draft
        if draft is not None:
            with contextlib.suppress(BadRequest):  # it is gone already
                await self._obey_pauses(lambda: self._writer.remove(where, draft))
            sending.draft = None

    async def _step(self, message: ChannelMessage, sending: _Sending, answers: int | None) -> None:
        """Bring the next step on its way; media that cannot be sent as they are become other steps."""
        step, where = sending.steps[sending.done], ChatAddress.of(message.chat_id)
        if isinstance(step, Media):
            if sending.done > sending.before:
                await self._note(message, sending)
            try:
                uploads = [await load(item) for item in step.items]
                await self._obey_pauses(lambda: self._writer.upload(where, uploads, step.caption, answers=answers))
            except (OSError, ValueError) as error:
                # What the system says may name a folder of this machine, which is nobody's business in a chat.
                reason = (error.strerror or type(error).__name__) if isinstance(error, OSError) else str(error)
                sending.steps[sending.done : sending.done + 1] = instead_of(step, reason, is_there=False)
                return
            except TelegramError as error:
                if not _is_refusal(error):
                    raise
                sending.steps[sending.done : sending.done + 1] = instead_of(step, error.message, is_there=True)
                return
        elif sending.done == 0 and sending.draft is not None:
            draft = sending.draft
            try:
                await self._obey_pauses(lambda: self._writer.edit(where, draft, step.styled))
            except (GoneError, BadRequest):  # somebody deleted it, or it cannot become this: it is said again
                if sending.before == 0:
                    await self._clear_draft(where, sending)
                    return
        else:
            await self._say(message, sending, step.styled, answers)
        sending.done += 1

    async def _say(self, message: ChannelMessage, sending: _Sending, styled: Styled, answers: int | None) -> None:
        """Send a text, unless it has arrived already: the connection was cut then, or the process killed."""
        where = ChatAddress.of(message.chat_id)
        if (lost := sending.lost) is not None:
            found = await self._obey_pauses(lambda: self._writer.find(where, lost, styled))
            sending.lost = None
            if found is not None:
                return
        newest = self._writer.lost(where)
        await self._note(message, sending, newest)
        try:
            await self._obey_pauses(lambda: self._writer.say(where, styled, answers=answers))
        except TelegramError as error:
            if may_have_arrived(error):
                sending.lost = newest
            raise

    async def _note(self, message: ChannelMessage, sending: _Sending, lost: Lost | None = None) -> None:
        """Note on the disk how far a reply has come, before its next step. That it cannot be noted keeps no reply."""
        done = sending.done - sending.before
        noted = Progress(done, lost).name
        if done > sending.texts or noted == sending.noted:
            return
        self._writer.settle(ChatAddress.of(message.chat_id))
        try:
            await self._desk.keep_draft(message, noted)
            sending.noted = noted
        except (BubError, OSError) as error:
            log_warning("telegram.not_noted", chat=message.chat_id, error=error)

    async def _obey_pauses(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call, again after a pause that Telegram asks for, unless that is a long one."""
        tries = 0
        while True:
            try:
                return await call()
            except RetryAfter as error:
                seconds, tries = seconds_of(error), tries + 1
                if seconds > PATIENCE or tries == _TRIES:
                    raise TryLaterError("Telegram wants a pause in this chat", seconds=seconds) from error


def _answer_to(message: ChannelMessage) -> tuple[str, str]:
    return message.chat_id, message.message_id


def _is_refusal(error: TelegramError) -> bool:
    """Return whether Telegram will say no as often as it is asked."""
    return isinstance(error, BadRequest) or "too large" in error.message.lower()
