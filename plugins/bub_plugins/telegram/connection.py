"""A bot that is connected: what comes in is read and handed on, and what goes out has its ways here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import trio
from telegram import Bot, BotCommand, User
from telegram.error import InvalidToken, TelegramError

from bub.channels import ChannelMessage, RefusedError
from bub.log import log_exception, log_info, log_warning
from bub_plugins.telegram.drafts import DraftDesk
from bub_plugins.telegram.inbound import COMMANDS, Notice, UpdateReader
from bub_plugins.telegram.limits import ChatAddress
from bub_plugins.telegram.lost import KnownMessages
from bub_plugins.telegram.media import with_media
from bub_plugins.telegram.polling import HOLD_SECONDS, MOST_REFUSALS, Polling, Trouble, is_refusal, pause_of
from bub_plugins.telegram.questions import AnswerDesk, Questions
from bub_plugins.telegram.request import Request, open_bot
from bub_plugins.telegram.sending import Sender
from bub_plugins.telegram.settings import TelegramSettings
from bub_plugins.telegram.typing_sign import TypingSigns

__all__ = ["Connection", "introduce_bot", "open_bot"]

_REFUSED = "Telegram refuses the token of the bot"
_HELP = "get one from @BotFather, then run `bub config set telegram.token --secret`"
_MOST_NOTICES = 100


class ConnectionDesk(DraftDesk, AnswerDesk, Protocol):
    """What a connection asks of the channel's desk."""


class Beginning(Protocol):
    """Whether the channel has begun."""

    is_told: bool

    def tell(self) -> None:
        """Tell that it has, if that was not told yet."""


class Connection:
    """What a channel does while it runs; its tasks are started with `start_soon` and end with the channel."""

    def __init__(
        self,
        bot: Bot,
        request: Request,
        me: User,
        settings: TelegramSettings,
        handle: Callable[[Any], Awaitable[None]],
        desk: ConnectionDesk,
        known: KnownMessages,
        start_soon: Callable[..., object],
    ) -> None:
        self._bot = bot
        self._request = request
        self._handle = handle
        self._media_limit = settings.media_limit
        self._reader = UpdateReader(settings, me)
        self._polling = Polling(bot, request, self._take, hold=HOLD_SECONDS)
        self._notices, waiting = trio.open_memory_channel[Notice](_MOST_NOTICES)
        self.typing = TypingSigns(bot, start_soon)
        self.sender = Sender(bot, stream=settings.stream, start_soon=start_soon, desk=desk, known=known)
        self.questions = Questions(bot, self.sender.writer, desk, me, say=self._notice, start_soon=start_soon)
        self._guests = settings.guests
        start_soon(self._say, waiting)

    async def receive(self) -> RefusedError:
        """Hand on what comes in until cancelled; returns the refusal when Telegram refuses the token for good."""
        try:
            await self._set_up()
            return await self._polling.run()
        except InvalidToken:
            return RefusedError(_REFUSED, help=_HELP)

    def take_over(self, settings: TelegramSettings) -> None:
        """Go on with other settings, from the next message on; one that is shown already is shown on."""
        self._media_limit = settings.media_limit
        self._guests = settings.guests
        self._reader.take_over(settings)
        self.sender.stream = settings.stream

    async def with_media(self, message: ChannelMessage) -> ChannelMessage:
        """Return the message with its media."""
        return await with_media(message, self._bot, self._request, self._media_limit)

    async def _set_up(self) -> None:
        """A bot with a webhook cannot be polled; what waits for it is kept. The menu of commands is a courtesy."""
        await Trouble("trouble").outlast(self._bot.delete_webhook)
        try:
            await self._bot.set_my_commands([BotCommand(*command) for command in COMMANDS.items()])
        except TelegramError as error:
            log_warning("telegram.no_menu", error=f"{type(error).__name__}: {error}")

    async def _take(self, raw: Mapping[str, Any]) -> None:
        """Hand an update on. One that cannot be understood is put into the log and left there."""
        try:
            said = self.questions.read(raw)
            found = None if said is not None else self._reader.read(raw, trio.current_time())
        except Exception as error:  # noqa: BLE001 (whatever is wrong with one update, the next one may be right)
            log_exception("telegram.update_set_aside", error, update=str(dict(raw))[:4000])
            return
        if said is not None:
            chat, _, _ = said.chat_id.partition(":")
            await self.questions.take(said, is_guest=self._guests.admits(chat, said.by, None))
        elif isinstance(found, Notice):
            self._notice(found.chat_id, found.text)
        elif found is not None:
            self.sender.note(ChatAddress.of(found.chat_id), int(found.message_id))
            await self._handle(found)

    def _notice(self, chat_id: str, text: str) -> None:
        """Say something without a turn, in its time."""
        try:
            self._notices.send_nowait(Notice(chat_id, text))
        except trio.WouldBlock:
            log_warning("telegram.notice_dropped", chat=chat_id)

    async def _say(self, notices: trio.MemoryReceiveChannel[Notice]) -> None:
        """Send notices, one after another; one that cannot be sent is missed by nobody."""
        async for notice in notices:
            where = ChatAddress.of(notice.chat_id)
            try:
                sent = await self._bot.send_message(where.chat, notice.text, message_thread_id=where.topic)
                self.sender.note(where, sent.message_id)
            except Exception as error:  # noqa: BLE001 (the answer may be anything)
                log_info("telegram.notice_not_sent", chat=notice.chat_id, error=f"{type(error).__name__}: {error}")
                await trio.sleep(pause_of(error))


async def introduce_bot(bot: Bot, beginning: Beginning) -> User:
    """Return who the bot is.

    The channel begins here when Telegram cannot be reached, so that nothing else has to wait for it. Raises
    `RefusedError` for a token that is refused for good.
    """
    trouble, refusals = Trouble("trouble"), 0
    while True:
        try:
            me = await _me(bot)
        except TelegramError as error:
            is_over = isinstance(error, InvalidToken) and not beginning.is_told  # it may be no server at all
            if is_refusal(error):
                refusals += 1
                is_over = refusals == MOST_REFUSALS
            elif not is_over:
                refusals = 0
                beginning.tell()
            if is_over:
                wrong = "" if refusals else ", or there is no Bot API server at `settings.telegram.base_url`"
                raise RefusedError(f"{_REFUSED}{wrong}", help=_HELP) from None
            await trouble.wait(error)
        else:
            trouble.over()
            return me


async def _me(bot: Bot) -> User:
    """Return who the bot is, if the answer says so at all."""
    try:
        return await bot.get_me()
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        raise TelegramError("the answer does not say who the bot is") from error
