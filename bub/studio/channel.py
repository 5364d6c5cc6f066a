"""The chats of the page: a channel of Bub's own, whose sessions nobody else can name, and which names no other ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from uuid import uuid4

from bub.base.surfaces import Surface
from bub.channels.channel import Role, ShownQuestion, WhenBusy
from bub.channels.message import COMMAND, ERROR, ChannelMessage
from bub.channels.own import OwnChannel
from bub.errors import BubError, UsageError
from bub.secrets.redactor import Redactor
from bub.streaming import StreamEvent
from bub.studio.chatlog import ChatEvent, ChatLog

NAME = "studio"
"""The channel's name; a session is `studio:CHAT`."""

_LONGEST_NAME = 60
_LONGEST_MESSAGE = 200_000
_WRITER = "page"
"""Who writes: anybody who has the token. It is no approver's id, which a channel would have to vouch for."""


class PageChannel(OwnChannel):
    """The chats of the page; `mask` gives what covers secrets, and `log` takes what browsers are to see.

    They end with the process unless they are kept (`is_kept`), in the inbox of a gateway.
    """

    name = NAME
    role: Role = "interface"
    when_busy: WhenBusy = "steer"
    surface = Surface.PAGE
    shows_questions = True

    def __init__(self, log: ChatLog, mask: Callable[[], Redactor], *, is_kept: bool) -> None:
        super().__init__()
        self.has_schedules = is_kept
        self._log = log
        self._mask = mask
        self._waiting: Counter[str] = Counter()

    async def submit(self, chat: str, profile: str, content: str) -> str:
        """Take in what somebody wrote in a chat, for a profile; return the id of the message, which is kept then.

        Raises `UsageError` for a name or a text that cannot be, `BubError` if it cannot be kept.
        """
        if not chat.strip() or not chat.isprintable() or len(chat) > _LONGEST_NAME:
            raise UsageError(f"a chat has a name of up to {_LONGEST_NAME} characters", help="choose another name")
        if not content.strip() or len(content) > _LONGEST_MESSAGE:
            raise UsageError(f"a message has up to {_LONGEST_MESSAGE:,} characters, and is not empty")
        if self.desk is None:
            raise BubError(
                "the chat of the page does not run", help=f"a plugin has a channel `{NAME}`, or Bub is about to end"
            )
        message_id = uuid4().hex
        message = ChannelMessage(
            NAME,
            chat.strip(),
            content,
            session_id=session_of(chat),
            sender_id=_WRITER,
            message_id=message_id,
            profile=profile,
        )
        self._waiting[chat.strip()] += 1
        try:
            await self.hand_over(message)
        except BaseException:
            self._settle(message)
            raise
        return message_id

    def stop(self, chat: str) -> bool:
        """Cancel what is under way in a chat; says whether there was anything."""
        return self.desk is not None and self.desk.cancel_turn(session_of(chat))

    def is_busy(self, chat: str) -> bool:
        """Whether something in a chat waits for its answer."""
        return self._waiting[chat.strip()] > 0

    # What the manager asks of it.

    def on_event(self, event: StreamEvent, message: ChannelMessage) -> None:
        """Let browsers see the answer as it comes."""
        self._tell(message.chat_id, message.message_id, event.kind, dict(event.data))

    def attending(self, message: ChannelMessage) -> AbstractContextManager[None]:
        """Return a block in which the answer to a message is in the making."""
        return self._attending(message)

    @contextmanager
    def _attending(self, message: ChannelMessage) -> Iterator[None]:
        self._tell(message.chat_id, message.message_id, "begun", {})
        yield

    def on_answered(self, message: ChannelMessage, replies: Sequence[ChannelMessage]) -> None:
        """Note that a message is done with; if it is not answered, browsers see at once that it is over."""
        self._settle(message)
        if not any(reply.answers == message.message_id for reply in replies):
            self._tell(message.chat_id, message.message_id, "over", {})

    async def send(self, message: ChannelMessage) -> None:
        """Let browsers see a reply, which is all of a command's answer, and that it is over."""
        content = message.content.strip()
        if content:
            kind = "error" if message.kind == ERROR else "command" if message.kind == COMMAND else "normal"
            self._tell(message.chat_id, message.answers, "message", {"kind": kind, "content": content})
        self._tell(message.chat_id, message.answers, "over", {})

    async def show_question(self, question: ShownQuestion) -> str:
        """Show a question: every browser sees those that are open."""
        return question.id

    def _settle(self, message: ChannelMessage) -> None:
        self._waiting[message.chat_id] -= 1
        if self._waiting[message.chat_id] <= 0:
            del self._waiting[message.chat_id]

    def _tell(self, chat: str, message_id: str, kind: str, data: dict[str, object]) -> None:
        self._log.add(ChatEvent(chat, message_id, kind, self._mask().value(data)))


def session_of(chat: str) -> str:
    """Return the session of a chat."""
    return f"{NAME}:{chat.strip()}"
