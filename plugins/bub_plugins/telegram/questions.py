"""Questions about tools: shown with buttons, and answered by those, by `/yes ID` and `/no ID`, or in a reply."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, Message, User
from telegram.error import BadRequest, TelegramError

from bub.channels import ShownQuestion, TakenAnswer
from bub.log import log_info
from bub_plugins.telegram.limits import ChatAddress
from bub_plugins.telegram.markup import Styled, split
from bub_plugins.telegram.writing import GoneError, Upload, Writer

WHICH = "Which question? Reply to it, or write /yes and its id, such as /yes q7."

_SAID = re.compile(r"/(?P<word>yes|no)(?:@(?P<bot>\w+))?(?:\s+(?P<id>q\d{1,15}))?\s*", re.IGNORECASE)
_PRESSED = re.compile(r"(?P<word>yes|no) (?P<id>q\d{1,15})")
_MOST_TEXT = 3_000
"""How many UTF-16 units of a call are in the question itself."""

_MOST_PUT_AWAY = 1_000
_MOST_WORDS = 200
"""What Telegram shows when a button was pressed."""


class AnswerDesk(Protocol):
    """Takes answers, on disk when it returns."""

    async def answer(self, question: str, is_yes: bool, *, by: str) -> TakenAnswer: ...


@dataclass(frozen=True, slots=True)
class Said:
    """An answer to a question, by whom; `question` is "" if they did not say which. `pressed` is the id of the press.

    `below` is the message that the button is part of, and its text.
    """

    question: str
    is_yes: bool
    by: str
    chat_id: str
    pressed: str = ""
    below: tuple[int, str] | None = None


class Questions:
    """Shows questions in chats and takes what people say to them. `say` sends a text to a chat."""

    def __init__(
        self,
        bot: Bot,
        writer: Writer,
        desk: AnswerDesk,
        me: User,
        *,
        say: Callable[[str, str], None],
        start_soon: Callable[..., object],
    ) -> None:
        self._bot = bot
        self._writer = writer
        self._desk = desk
        self._me = me
        self._say = say
        self._start_soon = start_soon
        self._sent_whole: set[str] = set()
        self._put_away: dict[tuple[str, int], None] = {}

    async def show(self, question: ShownQuestion) -> str:
        """Send a question, unless it is shown; return the id of its message.

        Whoever can press a button has all of the call before them: what is long is sent as a file first.
        """
        if question.shown:
            return question.shown
        where = ChatAddress.of(question.chat_id)
        answers = int(question.answers) if question.answers.isdecimal() else None
        if _beginning(question) != question.text and question.id not in self._sent_whole:
            whole = Upload("document", f"{question.id}.txt", question.text.encode("utf-8", "replace"))
            await self._writer.upload(where, [whole], Styled(""), answers=answers)
            self._sent_whole.add(question.id)
        text = f"{_describe(question)}\n\n{_how_to_answer(question)}"
        shown = str(await self._writer.ask(where, Styled(text), _buttons(question), answers=answers))
        self._sent_whole.discard(question.id)
        return shown

    async def close(self, question: ShownQuestion, words: str) -> None:
        """Let a question say what came of it, without buttons."""
        if question.shown.isdecimal():
            await self._change(question.chat_id, int(question.shown), f"{_describe(question)}\n\n{words}")

    def read(self, raw: Mapping[str, Any]) -> Said | None:
        """Return what somebody says to a question in an update; None if it is about something else.

        Who it is, Telegram says: nobody for who writes in the name of a group, and for what is forwarded or of a bot.
        """
        if (query := raw.get("callback_query")) is not None:
            return _read_press(query)
        given = raw.get("message")
        text = given.get("text") if isinstance(given, dict) else None
        found = _SAID.fullmatch(text.strip()) if isinstance(text, str) else None
        if found is None or (found["bot"] or "").casefold() not in ("", (self._me.username or "").casefold()):
            return None
        assert isinstance(given, dict)
        message = Message.de_json(given, None)
        sender, is_own = message.from_user, message.forward_origin is None and message.via_bot is None
        is_person = sender is not None and not sender.is_bot and message.sender_chat is None and is_own
        by = str(sender.id) if sender is not None and is_person else ""
        topic = f":{message.message_thread_id}" if message.is_topic_message and message.message_thread_id else ""
        named = (found["id"] or self._asked_in(message.reply_to_message)).casefold()
        return Said(named, found["word"].casefold() == "yes", by, f"{message.chat.id}{topic}")

    async def take(self, said: Said, *, is_guest: bool) -> None:
        """Hand an answer on, and say what came of it. Raises `BubError` if it cannot be kept; it then comes again."""
        if not said.question:
            if is_guest:
                self._say(said.chat_id, WHICH)
            return
        taken = await self._desk.answer(said.question, said.is_yes, by=said.by)
        if said.pressed:
            self._start_soon(self._tell_who_pressed, said, taken)
        elif is_guest and not taken.counts:
            self._say(said.chat_id, taken.words)

    def _asked_in(self, message: Message | None) -> str:
        """Return the question that a message of the bot asks: only Bub puts buttons below one."""
        if message is None or message.from_user is None or message.from_user.id != self._me.id:
            return ""
        rows = message.reply_markup.inline_keyboard if message.reply_markup is not None else ()
        data = str(rows[0][0].callback_data) if rows and rows[0] else ""
        found = _PRESSED.fullmatch(data)
        return found["id"] if found is not None else ""

    async def _tell_who_pressed(self, said: Said, taken: TakenAnswer) -> None:
        async def answer() -> None:
            await self._bot.answer_callback_query(said.pressed, taken.words[:_MOST_WORDS], show_alert=not taken.counts)

        await _try(answer)
        if taken.is_over and not taken.counts and said.below is not None:
            await _try(lambda: self._put_buttons_away(said, taken.words))

    async def _put_buttons_away(self, said: Said, words: str) -> None:
        """Take the buttons from a question that is over, once: who presses again and again must not use up the pace."""
        assert said.below is not None
        number, text = said.below
        if (said.chat_id, number) in self._put_away:
            return
        self._put_away[said.chat_id, number] = None
        if len(self._put_away) > _MOST_PUT_AWAY:
            del self._put_away[next(iter(self._put_away))]
        try:
            await self._change(said.chat_id, number, f"{text}\n\n{words}")
        except TelegramError:
            self._put_away.pop((said.chat_id, number), None)
            raise

    async def _change(self, chat_id: str, number: int, text: str) -> None:
        try:
            await self._writer.edit(ChatAddress.of(chat_id), number, Styled(text))
        except (GoneError, BadRequest) as error:  # somebody deleted it
            log_info("telegram.question_gone", chat=chat_id, error=str(error))


def _read_press(query: Any) -> Said | None:
    found = _PRESSED.fullmatch(str(query.get("data")))
    sender, message = query.get("from") or {}, query.get("message") or {}
    if found is None or sender.get("is_bot") or not isinstance(sender.get("id"), int):
        return None
    chat, number = (message.get("chat") or {}).get("id", ""), message.get("message_id")
    below = (number, str(message.get("text") or "")) if isinstance(number, int) else None
    return Said(found["id"], found["word"] == "yes", str(sender["id"]), str(chat), str(query.get("id")), below)


def _describe(question: ShownQuestion) -> str:
    beginning = _beginning(question)
    what = f"while {question.tool} runs" if question.asker else f"may I call {question.tool} with"
    lines = [f"{question.id}: {what}", beginning]
    if beginning != question.text:
        lines.append(
            f"… All {len(question.text):,} characters are in {question.id}.txt above: a yes is for all of them."
        )
    if question.is_again:
        lines.append("\nBub called it before the process ended, and nobody knows whether that call took effect.")
    return "\n".join(lines)


def _beginning(question: ShownQuestion) -> str:
    """Return as much of a call as goes into one message, counted as Telegram counts."""
    if len(question.text) <= _MOST_TEXT and len(Styled(question.text)) <= _MOST_TEXT:
        return question.text
    return next((part.text for part in split(Styled(question.text[:_MOST_TEXT]), _MOST_TEXT)), "")


def _how_to_answer(question: ShownQuestion) -> str:
    if not question.approvers:
        return f"It waits for the operator: bub inbox approve {question.id}"
    return f"Who may answer: press a button, or write /yes {question.id} or /no {question.id}"


def _buttons(question: ShownQuestion) -> InlineKeyboardMarkup | None:
    if not question.approvers:
        return None
    pairs = (("Yes", "yes"), ("No", "no"))
    row = [InlineKeyboardButton(text, callback_data=f"{word} {question.id}") for text, word in pairs]
    return InlineKeyboardMarkup([row])


async def _try(call: Callable[[], Awaitable[None]]) -> None:
    """Make a call that is missed by nobody if it fails: what was answered is kept."""
    try:
        await call()
    except TelegramError as error:
        log_info("telegram.answer_not_told", error=f"{type(error).__name__}: {error}")
