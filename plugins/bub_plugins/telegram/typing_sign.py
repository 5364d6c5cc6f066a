"""The sign that the bot is typing, while a turn runs (BEHAVIOURS C34)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import trio
from telegram import Bot
from telegram.constants import ChatAction
from telegram.error import TelegramError

from bub_plugins.telegram.limits import ChatAddress

EVERY = 4.0
"""Telegram takes the sign away after five seconds."""


@dataclass(eq=False, slots=True)
class _Sign:
    """The sign in one chat: how many turns want it, and what ends it."""

    turns: int = 0
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)


class TypingSigns:
    """Shows the sign in chats: one for each chat, however many turns run there."""

    def __init__(self, bot: Bot, start_soon: Callable[..., object], *, every: float = EVERY) -> None:
        self._bot = bot
        self._start_soon = start_soon
        self._every = every
        self._signs: dict[str, _Sign] = {}

    @contextmanager
    def show(self, chat_id: str) -> Iterator[None]:
        """Show the sign in a chat for as long as the block."""
        sign = self._signs.get(chat_id)
        if sign is None:
            sign = self._signs[chat_id] = _Sign()
            self._start_soon(self._show, ChatAddress.of(chat_id), sign.scope)
        sign.turns += 1
        try:
            yield
        finally:
            sign.turns -= 1
            if not sign.turns:
                del self._signs[chat_id]
                sign.scope.cancel()

    async def _show(self, where: ChatAddress, scope: trio.CancelScope) -> None:
        """Show it again and again; whatever fails ends it, since nobody needs it."""
        with scope:
            try:
                while True:
                    await self._bot.send_chat_action(where.chat, ChatAction.TYPING, message_thread_id=where.topic)
                    await trio.sleep(self._every)
            except TelegramError:
                return
