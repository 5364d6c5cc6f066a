"""What a channel is: a surface that messages come from and go to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Literal, Protocol

import msgspec
import trio

from bub.approval import Question
from bub.channels.message import ChannelMessage
from bub.errors import BubError
from bub.plugins.section import HasSettings
from bub.streaming import StreamEvent

Role = Literal["chat", "interface", "service"]
"""A `chat` is a place where people write. An `interface` is one that somebody sits at, such as a terminal: it runs only
where it is named. A `service` runs beside the others and brings no messages of people (BEHAVIOURS C2, C3)."""

WhenBusy = Literal["process", "drop", "follow_up", "steer"]
"""What becomes of a message whose session is being answered: see the hook `admit_message` (BEHAVIOURS C18)."""


class UndeliverableError(BubError):
    """A reply that can never be delivered: the chat is gone, or the bot may not write there. It is not tried again."""


class TryLaterError(BubError):
    """A reply that cannot be delivered now. It is tried again, not before `seconds` have passed."""

    def __init__(self, message: str, *, seconds: float, help: str | None = None) -> None:  # noqa: A002
        super().__init__(message, help=help)
        self.seconds = seconds


class RefusedError(BubError):
    """The other side refuses a channel for good, such as its token: it is not run again, and somebody has to see to it.

    A channel raises it from `run` once that has been said several times; a single refusal may be a mistake.
    """


class ShownQuestion(msgspec.Struct, frozen=True):
    """Whether a tool may be called, to be answered later by who may: `text` is what a person reads of the call.

    `id` is what people name it by. `approvers` are the ids of this channel that may answer. `shown` is the channel's
    own name for what shows it, "" if nothing does yet. `answers` is the `message_id` of the message that led to it.
    If there is an `asker`, such as "the server `docs`", it is not about a call: `text` says that they ask while the
    tool runs, and what, in their own words.
    """

    id: str
    tool: str
    text: str
    chat_id: str
    approvers: tuple[str, ...] = ()
    is_again: bool = False
    answers: str = ""
    shown: str = ""
    asker: str = ""


class TakenAnswer(msgspec.Struct, frozen=True):
    """What became of an answer: `words` for who gave it, whether it `counts`; nobody can answer what `is_over`."""

    words: str
    is_over: bool
    counts: bool = False


class Desk(Protocol):
    """What a channel can ask of the one who runs it."""

    async def answer(self, question: str, is_yes: bool, *, channel: str, by: str) -> TakenAnswer:
        """Take an answer to a question that the channel shows, on disk when this returns.

        `by` is an id that the channel vouches for: nobody can choose it or share it. Only who may answer is heard.
        """

    async def keep_draft(self, message: ChannelMessage, draft: str) -> None:
        """Remember, on disk, the channel's name for the message that shows the answer to `message` while it is made.

        It comes back as `draft` of the reply, and of `message` itself should its turn have to be taken again: so one
        message is completed, and no second one begun. A turn without a reply to the chat ends with one whose content
        is blank, for the channel to put away what it has shown.

        `message` may be a reply, too, while `send` delivers it: what is kept is its `draft` when it is sent again.
        """

    def remember(self, channel: str, name: str, value: str) -> None:
        """Keep a note for the next process, in place of the last one of this name, before whatever is kept next.

        Of each channel the 10,000 newest are remembered.
        """

    async def recall(self, channel: str) -> dict[str, str]:
        """Give the notes of a channel by their names."""

    def has_replies(self, message: ChannelMessage) -> bool:
        """Whether a reply to the chat of a message waits to be sent: what is shown there now would overtake it."""

    async def replies_sent(self, message: ChannelMessage) -> None:
        """Wait until none does."""

    def cancel_turn(self, session_id: str) -> bool:
        """Cancel what runs in a session, and forget what waits for it; says whether there was anything."""

    async def draining(self) -> None:
        """Wait until everything is to end: what comes in from then on is kept, and answered after the next start."""

    async def settled(self) -> None:
        """Wait until everything that came in so far is answered, and the replies have been sent."""


class Channel:
    """The base of a channel. A subclass says its `name`, and overrides what it does differently.

    It is given a `message_handler` (see the hook `provide_channels`): `await message_handler(message)` returns when the
    message is kept on disk; from then on the channel may tell the other side that it was received. It returns False if
    no turn of it follows: it is dropped, or one of its chat with the same `once` came before and is done with.
    """

    name: str = ""
    role: Role = "chat"
    needs_debounce: bool = False
    """Whether messages that follow each other closely are answered as one (BEHAVIOURS C7)."""
    when_busy: WhenBusy = "follow_up"
    can_ask: bool = False
    """Whether `ask` reaches a person."""
    shows_questions: bool = False
    """Whether `show_question` shows one, which is answered later; the turn waits for that, over a restart, too."""
    fills_forms: bool = False
    """Whether `fill` puts a form to a person; if not, only a form that wants a yes or a no is shown, as a question."""
    has_schedules: bool = True
    """Whether what the agent schedules for itself in a chat is fired by whoever runs the channel."""
    desk: Desk | None = None
    """Set while the channel runs."""

    @property
    def enabled(self) -> bool:
        """Whether the channel can run as it is set up; if not, `why_disabled` says what is missing."""
        return True

    @property
    def why_disabled(self) -> str:
        """What to do so that the channel can run: a clause, such as "set `settings.telegram.token`"."""
        return ""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Bring in messages until cancelled; tell `task_status` when it has begun.

        An error before that fails the start of all channels; one afterwards is logged, and the channel is run again.
        A channel that returns has ended, and one that raises `RefusedError` is not run again.
        """
        task_status.started()
        await trio.sleep_forever()

    async def connect(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Be there for turns while another gateway runs the channel, until cancelled; tell `task_status` when it is.

        Open what `attending`, `on_event`, `prepare`, `show_question` and `close_question` need, and bring in nothing.
        An error is logged, and it is tried again.
        """
        task_status.started()
        await trio.sleep_forever()

    def reload(self, framework: HasSettings) -> Iterable[str] | None:
        """Take over settings that were loaded again, which `framework.settings` has: at once what makes it safer.

        Called in between while it runs, so it must not wait. Return which settings differ and need a restart, such as
        `telegram.token`. None, as here, says that nothing is taken over: a channel is what it was made.
        """
        return None

    async def send(self, message: ChannelMessage) -> None:
        """Deliver one reply. Raises `UndeliverableError` when that can never be, `TryLaterError` when it has to wait.

        After any other error it is tried again. Replies to one chat come one after another, in order. A reply with a
        `draft` completes that message.
        """
        raise UndeliverableError(f"the channel `{self.name}` does not send")

    def on_event(self, event: StreamEvent, message: ChannelMessage) -> Any:
        """Told of each event of the answer to `message` as it comes (BEHAVIOURS T18). Plain or async; be quick."""

    def admits(self, message: ChannelMessage) -> bool:
        """Whether a message that was received is to be answered still, by the settings of now. Be quick.

        Asked before its turn begins. One that is not is set aside for `bub inbox`.
        """
        return True

    def on_answered(self, message: ChannelMessage, replies: Sequence[ChannelMessage]) -> None:
        """Learn that a message is done with, when that is on the disk; `replies` are given to `send` next. Be quick.

        There are none if nobody answers it: a plugin dropped it, or `,quit` ended its turn. Of a message that waits
        for the next start it learns nothing.
        """

    def attending(
        self, message: ChannelMessage
    ) -> AbstractContextManager[Any] | AbstractAsyncContextManager[Any] | None:
        """What is open while a turn answers `message`, such as a sign that somebody types (BEHAVIOURS C34)."""
        return None

    async def prepare(self, message: ChannelMessage) -> ChannelMessage:
        """The message as its turn should see it: fetches what was not fetched when it came, such as media (C33)."""
        return message

    async def ask(self, question: Question, message: ChannelMessage) -> bool:
        """Put a question to the person who sent `message`; the answer is no if they cannot be asked."""
        return False

    async def fill(self, question: Question, message: ChannelMessage) -> Mapping[str, Any] | None:
        """Put the `form` of a question to the person who sent `message`; return their answers by the queries' names.

        Say whose words they are. What is typed is for that one alone: it is kept nowhere. None if they decline.
        """
        return None

    async def show_question(self, question: ShownQuestion) -> str:
        """Show a question that is answered later, by `Desk.answer`; return the channel's name for what shows it.

        One that is `shown` already, by an earlier process, need not be shown again.
        """
        return ""

    async def close_question(self, question: ShownQuestion, words: str) -> None:
        """Let what shows a question say what came of it. Whatever fails here, the answer is kept."""
