"""What an update means to the agent: a message with its facts and media, a notice to send back at once, or nothing."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from telegram import Chat, Message, MessageEntity, PhotoSize, User

from bub.channels import ChannelMessage
from bub.log import log_warning
from bub_plugins.telegram.settings import TelegramSettings

NAME = "telegram"
REFUSED = "I may not talk to you. Your Telegram id is {user}."
REFUSED_HERE = "I may not talk here. The id of this chat is {chat}, and yours is {user}."
GREETING = "Hello! Write me what you want to know or have done."
GREETING_IN_GROUP = "Hello! Say /{command} and what you want, mention me, or reply to what I say."
COMMANDS = {"start": "begin", "bub": "ask something: /bub and what you want", "help": "how to talk to me"}
ASK = "bub"

REFUSE_AGAIN = 3600.0
"""How many seconds somebody who was refused is not told so again."""

_REMEMBERED = 2_000
_LONGEST_FACT = 1_000
_LONGEST_GIST = 60
_COMMAND = re.compile(r"/(?P<name>[A-Za-z0-9_]{1,32})(?:@(?P<bot>\w+))?(?=\s|$)\s*")
_MIME_TYPE = re.compile(r"[a-z0-9.+_-]+/[a-z0-9.+_-]+(?=\s*(;|$))")
_PICTURES = ("image/jpeg", "image/png", "image/webp", "image/gif")
_WITHOUT_FILE = ("location", "venue", "contact", "poll", "dice", "checklist", "story", "game", "paid_media")


@dataclass(frozen=True, slots=True)
class Notice:
    """A fixed text that goes back to a chat without a turn, and is lost without harm."""

    chat_id: str
    text: str


class UpdateReader:
    """Reads updates, each as JSON. `me` is the bot itself.

    A message that was edited is a new message, with `edited: yes` among its facts, when its text has changed.
    """

    def __init__(self, settings: TelegramSettings, me: User) -> None:
        self._me = me
        self.take_over(settings)
        self._mention = re.compile(rf"@{re.escape(me.username or '')}(?!\w)[,:]?\s*", re.IGNORECASE)
        self._refused: OrderedDict[int, float] = OrderedDict()
        self._contents: OrderedDict[tuple[int, int], tuple[str, str]] = OrderedDict()

    def take_over(self, settings: TelegramSettings) -> None:
        """Read what comes from now on by these settings."""
        self._guests = settings.guests
        self._media_limit = settings.media_limit
        word = re.escape(settings.keyword.strip())
        self._keyword = re.compile(rf"(?<!\w){word}(?!\w)", re.IGNORECASE) if word else None

    def read(self, raw: Mapping[str, Any], now: float) -> ChannelMessage | Notice | None:
        """Read an update that came at the time `now`, in seconds. Raises if it cannot be understood."""
        is_edited = "edited_message" in raw
        given = raw.get("edited_message" if is_edited else "message")
        if given is None:
            return None
        message = Message.de_json(given, None)
        if message.chat.type == Chat.CHANNEL:
            return None
        if message.migrate_to_chat_id:
            log_warning("telegram.chat_has_moved", chat=message.chat.id, now=message.migrate_to_chat_id)
            return None
        return self._message(message, str(raw["update_id"]), is_edited=is_edited, now=now)

    def _message(self, message: Message, once: str, *, is_edited: bool, now: float) -> ChannelMessage | Notice | None:
        sender = _sender(message)
        text = message.text or message.caption or ""
        if message.forward_origin is None and self._is_for_another_bot(text):
            return None
        command, said = self._command(message)
        media = self._media(message)
        if not text and not media:
            said = text = _describe(message)
        if not text and not media:
            return None  # somebody joined, a title was changed, …
        if sender is None or not self._guests.admits(message.chat.id, sender.id, sender.username):
            return self._refusal(message, sender, is_start=command == "start", now=now)
        is_news = self._is_news(message, text, media, once)
        if is_edited and (message.location or not is_news):
            return None  # a place is edited again and again while somebody shares where they are
        is_active = self._is_active(message, sender, command, text)
        replied = _replied_message(message)
        if command == ASK and replied is not None and not media:
            media = self._media(replied)
        says_nothing = command == ASK and not said and not media and replied is None
        if is_active and (says_nothing or command in ("start", "help")):
            return None if is_edited else self._greeting(message)
        return ChannelMessage(
            channel=NAME,
            chat_id=_place(message),
            content=said if is_active and not message.forward_origin else _quote(message, text),
            sender_id=str(sender.id),
            is_active=is_active,
            context=self._facts(message, sender, text, is_edited=is_edited),
            media=media,
            message_id=str(message.message_id),
            once=once,
        )

    # Who is meant.

    def _command(self, message: Message) -> tuple[str, str]:
        """Return the command for this bot in a message ("" for none), and what it says beside that and a mention."""
        text = message.text or message.caption or ""
        if message.forward_origin is not None:
            return "", text
        said = text.lstrip()
        if mention := self._mention.match(said) if self._me.username else None:
            said = said[mention.end() :]
        found = _COMMAND.match(said)
        if found is None:
            return "", said if mention else text
        to = (found["bot"] or "").casefold()
        if to and to != (self._me.username or "").casefold():
            return "", text
        name = found["name"].casefold()
        return (name, said[found.end() :]) if name in COMMANDS else ("", text)

    def _is_for_another_bot(self, text: str) -> bool:
        """Return whether a text begins with a command that names another bot: it is not even overheard."""
        found = _COMMAND.match(text.lstrip())
        return found is not None and (found["bot"] or "").casefold() not in ("", (self._me.username or "").casefold())

    def _is_active(self, message: Message, sender: User | Chat, command: str, text: str) -> bool:
        """Return whether a message asks the bot for an answer (BEHAVIOURS C29)."""
        if isinstance(sender, User) and sender.is_bot:
            return False  # two bots would never stop
        if message.chat.type == Chat.PRIVATE or command:
            return True
        replied = _replied_message(message)
        if replied is not None and self._is_me(replied):
            return True
        if self._is_mentioned(message):
            return True
        call = _COMMAND.match(text)  # a command of who knows whom, which may have the word for its name
        return self._keyword is not None and self._keyword.search(text, call.end() if call else 0) is not None

    def _is_mentioned(self, message: Message) -> bool:
        own = f"@{self._me.username}".casefold()
        for entity, words in _entities(message):
            if entity.type in (MessageEntity.MENTION, MessageEntity.BOT_COMMAND) and words.casefold().endswith(own):
                return True
            if entity.type == MessageEntity.TEXT_MENTION and entity.user is not None and entity.user.id == self._me.id:
                return True
        return False

    def _is_news(self, message: Message, text: str, media: Sequence[Mapping[str, Any]], once: str) -> bool:
        """Return whether a message is not what it was: Telegram tells of edits that change nothing a bot can see.

        An update that could not be kept comes again, and is as new as before.
        """
        key = (message.chat.id, message.message_id)
        content = "\n".join([text, *(str(one["file_id"]) for one in media)])
        was, told_by = self._contents.pop(key, ("", ""))
        is_news = not told_by or was != content or told_by == once
        self._contents[key] = (content, once if is_news else told_by)
        while len(self._contents) > _REMEMBERED:
            self._contents.popitem(last=False)
        return is_news

    # What is said without a turn.

    def _refusal(self, message: Message, sender: User | Chat | None, *, is_start: bool, now: float) -> Notice | None:
        """Return a sentence for who may not talk to the bot, once an hour; none for groups unless they say `/start`."""
        is_private = message.chat.type == Chat.PRIVATE
        if sender is None or not (is_private or is_start):
            return None
        key = message.chat.id
        last = self._refused.get(key)
        if last is not None and now - last < REFUSE_AGAIN:
            return None
        self._refused[key] = now
        self._refused.move_to_end(key)
        while len(self._refused) > _REMEMBERED:
            self._refused.popitem(last=False)
        text = REFUSED if is_private else REFUSED_HERE
        return Notice(_place(message), text.format(user=sender.id, chat=message.chat.id))

    def _greeting(self, message: Message) -> Notice:
        is_private = message.chat.type == Chat.PRIVATE
        return Notice(_place(message), GREETING if is_private else GREETING_IN_GROUP.format(command=ASK))

    # What is known of a message.

    def _facts(self, message: Message, sender: User | Chat, text: str, *, is_edited: bool) -> dict[str, Any]:
        """Return what the model should know beside the text (BEHAVIOURS C30), each fact one line."""
        name = _name(sender)
        facts: dict[str, Any] = {
            "full_name": name,
            "username": sender.username,
            "sender_id": str(sender.id),
            "message_id": str(message.message_id),
            "date": message.date.isoformat(),
            "chat_type": str(message.chat.type),
        }
        if message.chat.type != Chat.PRIVATE:
            facts["chat_title"] = _line(message.chat.title)
            # When several people's messages are answered as one, each of these lines stays.
            facts[f"message_{message.message_id}_is_from"] = f"{name}: {_line(text, _LONGEST_GIST)}"
        if isinstance(sender, User) and sender.is_bot:
            facts["sender_is_bot"] = "yes"
        if is_edited:
            facts["edited"] = "yes"
        if message.forward_origin is not None:
            facts["forwarded_from"] = _origin(message.forward_origin)
        if (replied := _replied_message(message)) is not None:
            facts["reply_to_message_id"] = str(replied.message_id)
            facts["reply_to_author"] = "you" if self._is_me(replied) else _name(_sender(replied))
            facts["reply_to"] = _line(replied.text or replied.caption or _describe(replied) or self._kinds(replied))
        if message.quote is not None:
            facts["quote"] = _line(message.quote.text)
        facts["links"] = " ".join(
            _line(entity.url) for entity, _ in _entities(message) if entity.type == MessageEntity.TEXT_LINK
        )
        return {fact: value for fact, value in facts.items() if value}

    def _is_me(self, message: Message) -> bool:
        return message.from_user is not None and message.from_user.id == self._me.id

    def _kinds(self, message: Message) -> str:
        return ", ".join(f"({one['kind']})" for one in self._media(message))

    def _media(self, message: Message) -> list[dict[str, Any]]:
        """Return the media of a message, of which only the names are here so far."""
        return [_entry(*one) for one in _files(message, self._media_limit)]


def _files(message: Message, most: int) -> Iterator[tuple[str, Any, str, str]]:
    """Yield each file of a message: its kind, the file, its type and its name, if it has none of its own."""
    if message.photo:
        yield "image", _fitting(message.photo, most), "image/jpeg", ""
    if message.voice:
        yield "audio", message.voice, "audio/ogg", "voice.ogg"
    if message.audio:
        yield "audio", message.audio, "audio/mpeg", ""
    if message.video:
        yield "video", message.video, "video/mp4", ""
    if message.video_note:
        yield "video", message.video_note, "video/mp4", ""
    if message.animation:
        yield "video", message.animation, "video/mp4", ""
    elif message.document:  # an animation is one, too
        kind = "image" if message.document.mime_type in _PICTURES else "document"
        yield kind, message.document, "application/octet-stream", ""
    if message.sticker:
        moves = message.sticker.is_animated or message.sticker.is_video
        shown = message.sticker.thumbnail if moves else message.sticker
        if shown is not None:
            yield "image", shown, "image/webp", f"sticker {message.sticker.emoji or ''}".strip()


def _fitting(photos: Sequence[PhotoSize], most: int) -> PhotoSize:
    """Return the largest form of a picture that is not too large; else the smallest one."""
    fitting = [one for one in photos if one.file_size is None or one.file_size <= most]
    return max(fitting, key=lambda one: one.width * one.height) if fitting else photos[0]


def _entry(kind: str, file: Any, mime_type: str, name: str) -> dict[str, Any]:
    said = _MIME_TYPE.match((getattr(file, "mime_type", None) or "").lower())  # whoever sent it can say anything
    entry = {
        "kind": kind,
        "mime_type": said[0] if said else mime_type,
        "name": _line(getattr(file, "file_name", None) or name),
        "size": file.file_size,
        "file_id": file.file_id,
    }
    return {name: value for name, value in entry.items() if value not in (None, "")}


def _describe(message: Message) -> str:
    """Return what a message is in words that has neither text nor files: a place, a contact, a poll, …"""
    if message.venue:
        return f"(a place: {_line(message.venue.title)}, {_line(message.venue.address)})"
    if message.location:
        return f"(a place: latitude {message.location.latitude}, longitude {message.location.longitude})"
    if message.contact:
        name = " ".join(filter(None, (message.contact.first_name, message.contact.last_name)))
        return f"(a contact: {_line(name)}, {_line(message.contact.phone_number)})"
    if message.poll:
        options = " / ".join(_line(option.text) for option in message.poll.options)
        return f"(a poll: {_line(message.poll.question)} {options})"
    if message.dice:
        return f"({message.dice.emoji} shows {message.dice.value})"
    kind = next((kind for kind in _WITHOUT_FILE if getattr(message, kind, None)), "")
    return f"(a {kind.replace('_', ' ')}, which I cannot see)" if kind else ""


def _entities(message: Message) -> list[tuple[MessageEntity, str]]:
    found = message.parse_entities() if message.text else message.parse_caption_entities()
    return list(found.items())


def _sender(message: Message) -> User | Chat | None:
    """Return who wrote: a person; or a group or channel, in whose name its people can write."""
    return message.sender_chat or message.from_user


def _replied_message(message: Message) -> Message | None:
    """Return what a message replies to. All messages of a topic reply to its beginning, which nobody means."""
    replied = message.reply_to_message
    return replied if replied is not None and replied.forum_topic_created is None else None


def _quote(message: Message, text: str) -> str:
    """Return what is overheard or forwarded, with who said it: never a command to the bot, whatever it begins with."""
    author = _origin(message.forward_origin) if message.forward_origin else _name(_sender(message))
    return f"[{author}]: {text}" if text else ""


def _name(who: User | Chat | None) -> str:
    if who is None:
        return "somebody"
    return _line(who.full_name if isinstance(who, User) else who.effective_name)


def _origin(origin: Any) -> str:
    """Return who wrote first what was forwarded."""
    if getattr(origin, "sender_user_name", None):
        return _line(origin.sender_user_name)
    for field in ("sender_user", "sender_chat", "chat"):
        if (who := getattr(origin, field, None)) is not None:
            return _name(who)
    return "somebody"


def _place(message: Message) -> str:
    """Return the chat of a message and its topic: only topics have this mark; other replies have a thread, too."""
    topic = f":{message.message_thread_id}" if message.is_topic_message and message.message_thread_id else ""
    return f"{message.chat.id}{topic}"


def _line(text: str | None, most: int = _LONGEST_FACT) -> str:
    """Return a text as one line, so that nobody can write a fact into another one."""
    line = " ".join((text or "").split())
    return line if len(line) <= most else f"{line[:most]}…"
