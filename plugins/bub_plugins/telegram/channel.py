"""The channel: a bot that people write to, polled for what they say."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from bub.channels import Channel, ChannelMessage, ShownQuestion, TakenAnswer, TryLaterError
from bub.log import log_warning
from bub.streaming import StreamEvent
from bub_plugins.telegram.settings import TelegramSettings

if TYPE_CHECKING:  # importing telegram takes 0.3 seconds, which only a channel that runs pays
    from bub_plugins.telegram.connection import Connection

_NOT_CONNECTED_FOR = 3.0
_CONNECTED_WITH = ("token", "base_url", "proxy")


class _Beginning:
    """Whether the channel has begun, which is announced once."""

    def __init__(self, task_status: trio.TaskStatus[None]) -> None:
        self._task_status = task_status
        self.is_told = False

    def tell(self) -> None:
        if not self.is_told:
            self.is_told = True
            self._task_status.started()


class TelegramChannel(Channel):
    """Telegram, for one bot. `message_handler` keeps a message on disk before Telegram learns that it came."""

    name = "telegram"
    needs_debounce = True
    shows_questions = True

    def __init__(self, settings: TelegramSettings, message_handler: Callable[[Any], Awaitable[None]]) -> None:
        self._settings = settings
        self._guests = settings.guests
        self._handle = message_handler
        self._connection: Connection | None = None
        self._is_connected = trio.Event()

    @property
    def enabled(self) -> bool:
        """Whether there is a token (BEHAVIOURS C4)."""
        return bool(self._settings.token)

    @property
    def why_disabled(self) -> str:
        return "" if self.enabled else "run `bub onboard telegram`, or `bub config set telegram.token --secret`"

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Poll until cancelled. Raises `RefusedError` when Telegram refuses the token of the bot again and again.

        Where Telegram cannot be reached, the channel has begun
        all the same, and tries on.
        """
        if self._guests.is_empty:
            log_warning(
                "telegram.nobody_may_talk", help="list them in `telegram.allow_users` or `telegram.allow_chats`"
            )
        await self._stay_connected(task_status, polls=True)

    async def connect(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Be there for turns while another gateway polls: show typing, growing answers and questions, fetch media."""
        await self._stay_connected(task_status, polls=False)

    async def _stay_connected(self, task_status: trio.TaskStatus[None], *, polls: bool) -> None:
        """Have a connection until cancelled, or raise the refusal that polling comes to."""
        from bub_plugins.telegram.connection import Connection, introduce_bot, open_bot
        from bub_plugins.telegram.lost import KnownMessages

        async with open_bot(self._settings) as (bot, request):
            beginning = _Beginning(task_status)
            me = await introduce_bot(bot, beginning)
            desk = _Desk(self, f"{me.id}/")
            known = KnownMessages(await desk.recall(), desk.remember)
            async with trio.open_nursery() as nursery:
                connection = self._connection = Connection(
                    bot, request, me, self._settings, self._handle, desk, known, nursery.start_soon
                )
                self._is_connected.set()
                try:
                    beginning.tell()
                    if not polls:
                        await trio.sleep_forever()
                    refusal = await connection.receive()
                finally:
                    self._connection, self._is_connected = None, trio.Event()
                nursery.cancel_scope.cancel()
            raise refusal

    def reload(self, framework: Any) -> Collection[str]:
        """Take over who may talk to the bot, and all else that it need not connect again for."""
        new, own = TelegramSettings.of(framework), self._settings
        kept = {name: getattr(own, name) for name in _CONNECTED_WITH}
        self._settings = msgspec.structs.replace(new, **kept)
        self._guests = self._settings.guests
        if self._connection is not None:
            self._connection.take_over(self._settings)
        return [f"telegram.{name}" for name in _CONNECTED_WITH if getattr(new, name) != kept[name]]

    async def send(self, message: ChannelMessage) -> None:
        """Deliver one reply."""
        await (await self._connected()).sender.send(message)

    async def show_question(self, question: ShownQuestion) -> str:
        """Show a question in its chat, with buttons for those who may answer it."""
        return await (await self._connected()).questions.show(question)

    async def _connected(self) -> Connection:
        """Return the connection, which is about to come if the channel has just begun here. Raises `TryLaterError`."""
        if self._connection is None:
            with trio.move_on_after(_NOT_CONNECTED_FOR):
                await self._is_connected.wait()
        if self._connection is None:
            raise TryLaterError("Telegram is not connected", seconds=_NOT_CONNECTED_FOR)
        return self._connection

    async def close_question(self, question: ShownQuestion, words: str) -> None:
        """Let the message of a question say what came of it."""
        if self._connection is not None:
            await self._connection.questions.close(question, words)

    def admits(self, message: ChannelMessage) -> bool:
        """Whether who wrote a message may still talk to the bot."""
        chat, _, _ = message.chat_id.partition(":")
        return self._guests.admits(chat, message.sender_id, message.context.get("username"))

    def on_event(self, event: StreamEvent, message: ChannelMessage) -> None:
        """Show how the answer grows."""
        if self._connection is not None:
            self._connection.sender.on_event(event, message)

    def attending(self, message: ChannelMessage) -> AbstractAsyncContextManager[None]:
        """Show that the bot is typing (BEHAVIOURS C34); at the end, what was shown of the answer is put in order."""
        return self._attending(message)

    @asynccontextmanager
    async def _attending(self, message: ChannelMessage) -> AsyncIterator[None]:
        if self._connection is None:
            yield
            return
        connection = self._connection
        try:
            with connection.typing.show(message.chat_id):
                yield
        finally:
            if connection is self._connection:  # nothing can be begun on one that has ended meanwhile
                await connection.sender.turn_over(message)

    async def prepare(self, message: ChannelMessage) -> ChannelMessage:
        """Return the message with its media, as far as they are not too large (BEHAVIOURS C33)."""
        if self._connection is None or not message.media:
            return message
        return await self._connection.with_media(message)


class _Desk:
    """What a connection asks of the channel's desk, as far as there is one. The notes of each bot have its `mark`."""

    def __init__(self, channel: Channel, mark: str) -> None:
        self._channel = channel
        self._mark = mark

    async def recall(self) -> dict[str, str]:
        if self._channel.desk is None:
            return {}
        notes = await self._channel.desk.recall(self._channel.name)
        return {name.removeprefix(self._mark): note for name, note in notes.items() if name.startswith(self._mark)}

    def remember(self, name: str, note: str) -> None:
        if self._channel.desk is not None:
            self._channel.desk.remember(self._channel.name, self._mark + name, note)

    async def keep_draft(self, message: ChannelMessage, draft: str) -> None:
        if self._channel.desk is not None:
            await self._channel.desk.keep_draft(message, draft)

    def has_replies(self, message: ChannelMessage) -> bool:
        return self._channel.desk is not None and self._channel.desk.has_replies(message)

    async def replies_sent(self, message: ChannelMessage) -> None:
        if self._channel.desk is not None:
            await self._channel.desk.replies_sent(message)

    async def answer(self, question: str, is_yes: bool, *, by: str) -> TakenAnswer:
        if self._channel.desk is None:
            raise TryLaterError("the channel is being ended", seconds=_NOT_CONNECTED_FOR)
        return await self._channel.desk.answer(question, is_yes, channel=self._channel.name, by=by)
