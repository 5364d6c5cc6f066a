"""What the agent says, on its way to Telegram: split, styled, with its media, and each part of it only once."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from mimetypes import guess_extension
from pathlib import PurePosixPath
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes, urlsplit

import trio
from telegram import Bot
from telegram.error import BadRequest, Forbidden, RetryAfter, TelegramError

from bub.channels import ChannelMessage, TryLaterError, UndeliverableError
from bub.streaming import StreamEvent
from bub_plugins.telegram.drafts import FIRST_AFTER, DraftDesk, DraftMessage, number_of
from bub_plugins.telegram.limits import PATIENCE, ChatAddress, Pace
from bub_plugins.telegram.lost import Lost
from bub_plugins.telegram.markup import LONGEST_CAPTION, Styled, plain, render, split
from bub_plugins.telegram.writing import (
    ALBUM_FORMS,
    PLACEHOLDER,
    GoneError,
    Upload,
    Writer,
    may_have_arrived,
    seconds_of,
)

T = TypeVar("T")

TIDY_AFTER = 10.0
"""How many seconds after a turn its draft is tidied up when no answer has come to take its place."""

_PLAIN_KINDS = frozenset({"command", "error", "denied"})
_ERROR = "error"
_NO_TEXT = Styled("")
_FETCHED = ("http", "https")
_LARGEST_ALBUM = 10
_TRIES = 3
_TIDY_TRIES = 6
_MOST_UNFINISHED = 1_000
_TURN_ENDING = 20.0


@dataclass(frozen=True, slots=True)
class _Text:
    """One message of text."""

    styled: Styled


@dataclass(frozen=True, slots=True)
class _Media:
    """One message with something in it, or several as an album."""

    items: Sequence[Mapping[str, Any]]
    caption: Styled = _NO_TEXT


@dataclass(slots=True)
class _Sending:
    """A reply on its way: what it consists of, how much of that has arrived, and the draft that it completes.

    `lost_draft` is a placeholder that may be there, `lost` a message that may have arrived: the next step.
    """

    steps: list[_Text | _Media]
    draft: int | None
    lost_draft: Lost | None
    done: int = 0
    lost: Lost | None = None


class Sender:
    """Sends replies, and shows answers while they are made if it is told to `stream`.

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
        first_after: float = FIRST_AFTER,
        tidy_after: float = TIDY_AFTER,
    ) -> None:
        self._writer = Writer(bot, Pace())
        self.stream = stream
        self._start_soon = start_soon
        self._desk = desk
        self._first_after = first_after
        self._tidy_after = tidy_after
        self._drafts: dict[tuple[str, str], DraftMessage] = {}
        self._unfinished: dict[str, _Sending] = {}

    def note(self, where: ChatAddress, message_id: int) -> None:
        """Remember a message of a chat that is newer than all that earlier processes sent there."""
        self._writer.note(where, message_id)

    # Answers while they are made.

    def on_event(self, event: StreamEvent, message: ChannelMessage) -> None:
        """Take note of an event of the answer to `message`; what it changes is shown by a task."""
        if not self.stream or not message.message_id or message.output_channel or not DraftMessage.shows(event):
            return
        draft = self._drafts.get(_answer_to(message))
        if draft is None:
            draft = self._drafts[_answer_to(message)] = self._draft(message)
            draft.begin(self._start_soon)
        draft.tell(event)

    async def turn_over(self, message: ChannelMessage) -> None:
        """Called when the turn that answers `message` has ended, however it did.

        When this returns, the draft's id is on disk and nothing of it is under way. Should no reply take its place
        within `TIDY_AFTER`, it is tidied up: a placeholder is deleted, a beginning stays as it is.
        """
        draft = self._drafts.get(_answer_to(message))
        if draft is None:
            if number_of(message.draft) is None and Lost.named(message.draft) is None:
                return
            draft = self._drafts[_answer_to(message)] = self._draft(message)  # what an earlier attempt has left
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _TURN_ENDING):
            await draft.close()
        with contextlib.suppress(RuntimeError):  # the channel has ended meanwhile, and so has all that it would do
            self._start_soon(self._tidy, _answer_to(message), draft)

    async def _tidy(self, answer_to: tuple[str, str], draft: DraftMessage) -> None:
        pause = self._tidy_after
        for _ in range(_TIDY_TRIES):
            await trio.sleep(pause)
            if self._drafts.get(answer_to) is not draft:
                break
            try:
                if await draft.tidy():
                    break
                pause *= 2
            except TryLaterError as error:
                pause = max(pause, error.seconds)
        if self._drafts.get(answer_to) is draft:
            del self._drafts[answer_to]

    def _draft(self, message: ChannelMessage) -> DraftMessage:
        return DraftMessage(message, self._writer, self._desk, first_after=self._first_after)

    # Replies.

    async def send(self, message: ChannelMessage) -> None:
        """Deliver one reply: into its draft if it has one, in as many messages as it takes.

        Blank content without media is skipped (BEHAVIOURS C32). Raises `UndeliverableError` where Telegram will never
        take it, `TryLaterError` if it wants a longer pause; the network's errors are the library's own.
        """
        name = sha256(json.dumps(message.as_dict(), sort_keys=True, default=str).encode()).hexdigest()
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
            if sending.draft is not None and not (sending.steps and isinstance(sending.steps[0], _Text)):
                await self._clear_draft(where, sending)
            while sending.done < len(sending.steps):
                await self._step(where, sending, answers if sending.done == 0 else None)
        except TelegramError as error:
            if not isinstance(error, Forbidden) and not _is_refusal(error):
                raise
            self._unfinished.pop(name, None)
            raise UndeliverableError(f"Telegram does not take it for the chat {where.chat}: {error.message}") from error
        self._unfinished.pop(name, None)

    async def _begin(self, message: ChannelMessage) -> _Sending:
        """Begin a reply: close its draft, even one that began too late for the reply to name it, and plan its steps."""
        draft, lost = number_of(message.draft), Lost.named(message.draft)
        for answer_to, shown in list(self._drafts.items()):
            is_its = answer_to[1] == message.answers or (draft is not None and shown.message_id == draft)
            if answer_to[0] == message.chat_id and is_its:
                if message.kind == _ERROR and shown.has_said:  # what was said stays, and the error stands below it
                    await shown.close()
                    return _Sending(_steps(message, can_caption=True), None, None)
                del self._drafts[answer_to]
                await shown.take()
                draft = draft if draft is not None else shown.message_id
                lost = lost or shown.lost
        lost = lost if draft is None else None
        return _Sending(_steps(message, can_caption=draft is None and lost is None), draft, lost)

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

    async def _step(self, where: ChatAddress, sending: _Sending, answers: int | None) -> None:
        """Bring the next step on its way; media that cannot be sent as they are become other steps."""
        step = sending.steps[sending.done]
        if isinstance(step, _Media):
            try:
                uploads = [await _load(item) for item in step.items]
                await self._obey_pauses(lambda: self._writer.upload(where, uploads, step.caption, answers=answers))
            except (OSError, ValueError) as error:
                # What the system says may name a folder of this machine, which is nobody's business in a chat.
                reason = (error.strerror or type(error).__name__) if isinstance(error, OSError) else str(error)
                sending.steps[sending.done : sending.done + 1] = _instead(step, reason, is_there=False)
                return
            except TelegramError as error:
                if not _is_refusal(error):
                    raise
                sending.steps[sending.done : sending.done + 1] = _instead(step, error.message, is_there=True)
                return
        elif sending.done == 0 and sending.draft is not None:
            draft = sending.draft
            try:
                await self._obey_pauses(lambda: self._writer.edit(where, draft, step.styled))
            except (GoneError, BadRequest):  # somebody deleted it, or it cannot become this: it is said again
                await self._clear_draft(where, sending)
                return
        else:
            await self._say(where, sending, step.styled, answers)
        sending.done += 1

    async def _say(self, where: ChatAddress, sending: _Sending, styled: Styled, answers: int | None) -> None:
        """Send a text, unless it has arrived already, with the connection cut before anybody heard so."""
        if (lost := sending.lost) is not None:
            found = await self._obey_pauses(lambda: self._writer.find(where, lost, styled))
            sending.lost = None
            if found is not None:
                return
        newest = self._writer.lost(where)
        try:
            await self._obey_pauses(lambda: self._writer.say(where, styled, answers=answers))
        except TelegramError as error:
            if may_have_arrived(error):
                sending.lost = newest
            raise

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


# What a reply consists of.


def _steps(message: ChannelMessage, *, can_caption: bool) -> list[_Text | _Media]:
    """Return the messages that a reply makes: its text in parts, then its media. A short text is their caption."""
    content = _content_of(message)
    styled = plain(content) if message.kind in _PLAIN_KINDS else render(content)
    albums = _albums(message.media)
    if albums and can_caption and len(styled) <= LONGEST_CAPTION:
        return [_Media(album, styled if number == 0 else _NO_TEXT) for number, album in enumerate(albums)]
    return [*(_Text(part) for part in split(styled)), *(_Media(album) for album in albums)]


def _content_of(message: ChannelMessage) -> str:
    """Return the content, or the `message` of content that is a JSON object with one (BEHAVIOURS C32)."""
    content = message.content.strip()
    if content.startswith("{"):
        with contextlib.suppress(ValueError, RecursionError):
            given = json.loads(content)
            if isinstance(given, dict) and isinstance(given.get("message"), str):
                return str(given["message"])
    return message.content


def _albums(media: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Media as they are sent: pictures and films that follow each other together, everything else by itself."""
    albums: list[list[Mapping[str, Any]]] = []
    for item in media:
        joins = bool(albums) and all(_form_of(one) in ALBUM_FORMS for one in (item, albums[-1][0]))
        if joins and len(albums[-1]) < _LARGEST_ALBUM:
            albums[-1].append(item)
        else:
            albums.append([item])
    return albums


def _form_of(item: Mapping[str, Any]) -> str:
    """Return how Telegram shows something: the word in the name of its method."""
    kind, mime_type = str(item.get("kind") or ""), str(item.get("mime_type") or "").partition(";")[0].lower()
    if mime_type == "image/gif" and kind == "image":
        return "animation"
    if kind == "voice" or (kind == "audio" and mime_type == "audio/ogg"):
        return "voice"
    if kind == "image" and mime_type in ("", "image/jpeg", "image/png", "image/webp"):
        return "photo"
    return kind if kind in ("audio", "video") else "document"


def _instead(step: _Media, reason: str, *, is_there: bool) -> list[_Text | _Media]:
    """Return what replaces media that could not be sent: each by itself, else as a document, else a line about it."""
    if len(step.items) > 1:
        return [_Media([item], step.caption if number == 0 else _NO_TEXT) for number, item in enumerate(step.items)]
    [item] = step.items
    if is_there and _form_of(item) != "document":
        return [_Media([{**item, "kind": "document"}], step.caption)]
    url, name = str(item.get("url") or ""), str(item.get("name") or item.get("kind") or "file")
    line = f"{name}: {url}" if urlsplit(url).scheme in _FETCHED else f"({name} could not be sent: {reason})"
    return [*(_Text(part) for part in split(step.caption)), *(_Text(part) for part in split(plain(line)))]


async def _load(item: Mapping[str, Any]) -> Upload:
    """Return what is to be sent: its bytes, or the address that Telegram fetches it from.

    Raises `ValueError` if the entry names nothing, `OSError` if its file cannot be read.
    """
    url, path, form = str(item.get("url") or ""), str(item.get("path") or ""), _form_of(item)
    mime_type = str(item.get("mime_type") or "")
    if url.startswith("data:"):
        head, comma, body = url.removeprefix("data:").partition(",")
        if not comma:
            raise ValueError("its `data:` address has no data")
        content = base64.b64decode(unquote_to_bytes(body)) if head.endswith(";base64") else unquote_to_bytes(body)
        mime_type = mime_type or head.partition(";")[0]
    elif urlsplit(url).scheme in _FETCHED:
        return Upload(form, str(item.get("name") or ""), url)
    elif path:
        content = await trio.Path(path).read_bytes()
    else:
        raise ValueError("it has neither a `url` nor a `path`")
    name = str(item.get("name") or PurePosixPath(path).name or f"{form}{guess_extension(mime_type) or ''}")
    return Upload(form, name, content)
