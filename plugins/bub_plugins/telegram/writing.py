"""The calls that write to Telegram: at the pace it allows, plainly if it refuses styles, after chats that move."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar

from telegram import (
    Bot,
    InlineKeyboardMarkup,
    InputMediaPhoto,
    InputMediaVideo,
    LinkPreviewOptions,
    Message,
    MessageEntity,
    ReplyParameters,
)
from telegram.error import BadRequest, ChatMigrated, NetworkError, RetryAfter, TelegramError

from bub_plugins.telegram.limits import ChatAddress, Pace
from bub_plugins.telegram.lost import KnownMessages, Lost
from bub_plugins.telegram.markup import Styled
from bub_plugins.telegram.request import UnsentError

T = TypeVar("T")

PLACEHOLDER = "…"
"""What a message says whose answer is only being made."""

_IN_ALBUMS: Mapping[str, Any] = {"photo": InputMediaPhoto, "video": InputMediaVideo}

_MANY_LOST = 1_000

ALBUM_FORMS = frozenset(_IN_ALBUMS)
"""What several can be sent of at once."""

_GONE = ("to edit not found", "can't be edited", "message_id_invalid")
_ABOUT_THE_MESSAGE = (*_GONE, "message is not modified", "chat not found")
_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)


class GoneError(Exception):
    """A message that was to be edited is not there any more, or cannot be edited."""


@dataclass(frozen=True, slots=True)
class Upload:
    """Something that is not text: `form` is how Telegram shows it, `content` the bytes or where it fetches them."""

    form: str
    name: str
    content: str | bytes


class Writer:
    """Writes to chats. What Telegram refuses is raised as the library's own errors, except what is put right here."""

    def __init__(self, bot: Bot, pace: Pace, known: KnownMessages) -> None:
        self._bot = bot
        self._pace = pace
        self._moved: dict[str, str] = {}
        self._known = known
        self._looked_at: dict[tuple[str, Lost], set[int]] = {}

    def note(self, where: ChatAddress, message_id: int) -> None:
        """Remember a message of a chat, whoever wrote it."""
        self._known.note(self._now_at(where).chat, message_id)

    def _note_sent(self, where: ChatAddress, message_id: int) -> None:
        self._known.note_sent(self._now_at(where).chat, message_id)

    def lost(self, where: ChatAddress) -> Lost | None:
        """Return how to find a message that is about to be sent, if it is lost; None if too little is known."""
        return self._known.lost(self._now_at(where).chat)

    def settle(self, where: ChatAddress) -> None:
        """Keep what was sent to a chat, with whatever is kept next."""
        self._known.settle(self._now_at(where).chat)

    async def find(self, where: ChatAddress, lost: Lost, styled: Styled) -> int | None:
        """Return the id of a message that was lost, if it has arrived; it then says this text.

        If it fails, it goes on behind what it has looked at when it is called again.
        """
        chat = self._now_at(where).chat
        looked_at = self._looked_at.setdefault((chat, lost), set())
        if len(self._looked_at) > _MANY_LOST:
            del self._looked_at[next(iter(self._looked_at))]
        async with self._pace.turn(self._now_at(where)):
            for number in self._known.candidates(chat, lost):
                if number in looked_at:
                    continue
                try:
                    await self.edit(where, number, styled, is_draft=True)
                except (GoneError, BadRequest):  # it is not there, or not the bot's
                    looked_at.add(number)
                    continue
                self._note_sent(where, number)
                self._looked_at.pop((chat, lost), None)
                return number
        self._looked_at.pop((chat, lost), None)
        return None

    async def say(self, where: ChatAddress, styled: Styled, *, answers: int | None = None) -> None:
        """Send a text as a message, in answer to another one where `answers` says so."""

        async def send(chat: str, entities: Sequence[Any]) -> None:
            sent = await self._bot.send_message(chat, styled.text, entities=entities, **_place(where, answers))
            self._note_sent(where, sent.message_id)

        await self._send_styled(where, styled, send)

    async def ask(
        self, where: ChatAddress, styled: Styled, buttons: InlineKeyboardMarkup | None, *, answers: int | None = None
    ) -> int:
        """Send a text with buttons below it; return the id of its message."""
        numbers: list[int] = []

        async def send(chat: str, entities: Sequence[Any]) -> None:
            place = _place(where, answers)
            sent = await self._bot.send_message(chat, styled.text, entities=entities, reply_markup=buttons, **place)
            self._note_sent(where, sent.message_id)
            numbers.append(sent.message_id)

        await self._send_styled(where, styled, send)
        return numbers[-1]

    def spare_turn(self, where: ChatAddress) -> AbstractAsyncContextManager[None]:
        """Return a block for one call that could be left out: `place`, or `edit` for a draft."""
        return self._pace.turn(self._now_at(where), spare=True)

    async def place(self, where: ChatAddress, *, answers: int | None = None) -> int:
        """Send the placeholder of an answer, within a `spare_turn`. Returns its id."""
        message = await self._call_moving(
            where,
            lambda chat: self._bot.send_message(chat, PLACEHOLDER, **_place(where, answers)),
        )
        self._note_sent(where, message.message_id)
        return message.message_id

    async def edit(
        self, where: ChatAddress, message_id: int, styled: Styled, *, is_draft: bool = False, is_whole: bool = True
    ) -> None:
        """Let a message of the bot say something else. Raises `GoneError` when that message is not to be had.

        That of a draft is made within a `spare_turn`. What is not yet the whole answer shows no preview of its links.
        """

        async def change(chat: str, entities: Sequence[Any]) -> None:
            preview = None if is_whole else _NO_PREVIEW
            edited = await self._bot.edit_message_text(
                styled.text, chat, message_id, entities=entities, link_preview_options=preview
            )
            if isinstance(edited, Message) and edited.from_user is not None and not edited.from_user.is_bot:
                raise GoneError("the message is somebody else's")

        try:
            await self._send_styled(where, styled, change, is_draft=is_draft)
        except BadRequest as error:
            said = error.message.lower()
            if "message is not modified" in said:
                return
            if any(words in said for words in _GONE):
                raise GoneError(error.message) from error
            raise

    async def remove(self, where: ChatAddress, message_id: int) -> None:
        """Delete a message of the bot."""
        await self._call_paced(where, lambda chat: self._bot.delete_message(chat, message_id))

    async def upload(
        self, where: ChatAddress, uploads: Sequence[Upload], caption: Styled, *, answers: int | None = None
    ) -> None:
        """Send one upload, or several pictures and films as one album; the caption is below the first."""

        async def send(chat: str, entities: Sequence[Any]) -> None:
            if len(uploads) > 1:
                album = [
                    _IN_ALBUMS[one.form](one.content, filename=one.name, caption=text, caption_entities=marks)
                    for number, one in enumerate(uploads)
                    for text, marks in [(caption.text, entities) if number == 0 else (None, None)]
                ]
                for sent in await self._bot.send_media_group(chat, album, **_place(where, answers)):
                    self._note_sent(where, sent.message_id)
                return
            [upload] = uploads
            method: Callable[..., Awaitable[Message]] = getattr(self._bot, f"send_{upload.form}")
            sent = await method(
                chat,
                upload.content,
                filename=upload.name,
                caption=caption.text or None,
                caption_entities=entities,
                **_place(where, answers),
            )
            self._note_sent(where, sent.message_id)

        await self._send_styled(where, caption, send)

    async def _send_styled(
        self,
        where: ChatAddress,
        styled: Styled,
        call: Callable[[str, Sequence[Any]], Awaitable[None]],
        *,
        is_draft: bool = False,
    ) -> None:
        """Make a call with the entities of a text; without them when Telegram refuses it, whatever it says."""
        through = self._call_moving if is_draft else self._call_paced
        entities = [MessageEntity(*one[:3], url=one.url, language=one.language) for one in styled.entities]
        try:
            await through(where, lambda chat: call(chat, entities))
        except BadRequest as error:
            if not styled.entities or any(words in error.message.lower() for words in _ABOUT_THE_MESSAGE):
                raise
            await through(where, lambda chat: call(chat, ()))

    async def _call_paced(self, where: ChatAddress, call: Callable[[str], Awaitable[T]]) -> T:
        async with self._pace.turn(self._now_at(where)):
            return await self._call_moving(where, call)

    async def _call_moving(self, where: ChatAddress, call: Callable[[str], Awaitable[T]]) -> T:
        try:
            return await call(self._now_at(where).chat)
        except ChatMigrated as error:
            self._moved[where.chat] = str(error.new_chat_id)
            return await call(self._now_at(where).chat)
        except RetryAfter as error:
            self._pace.hold(self._now_at(where), seconds_of(error))
            raise

    def _now_at(self, where: ChatAddress) -> ChatAddress:
        """Return the address that a chat has since it became a larger group."""
        moved = self._moved.get(where.chat)
        return replace(where, chat=moved) if moved else where


def seconds_of(error: RetryAfter) -> float:
    """Return how long Telegram wants to wait."""
    after = error.retry_after
    return after.total_seconds() if isinstance(after, timedelta) else float(after)


def _place(where: ChatAddress, answers: int | None) -> Mapping[str, Any]:
    """Return the topic of a message, and what it answers."""
    place: dict[str, Any] = {}
    if where.topic is not None:
        place["message_thread_id"] = where.topic
    if answers is not None:
        place["reply_parameters"] = ReplyParameters(answers, allow_sending_without_reply=True)
    return place


def may_have_arrived(error: TelegramError) -> bool:
    """Return whether what failed may have been done all the same: nobody heard what became of it."""
    return isinstance(error, NetworkError) and not isinstance(error, BadRequest | UnsentError)
