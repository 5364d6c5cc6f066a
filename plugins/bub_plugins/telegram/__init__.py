"""Telegram: people write to a bot, alone or in groups, and it answers there.

It polls Telegram for what was said, so that it needs no address of its own, and confirms nothing before it is on disk.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from bub import hookimpl
from bub_plugins.telegram.channel import TelegramChannel
from bub_plugins.telegram.settings import TelegramSettings

__all__ = ["Telegram", "TelegramChannel", "TelegramSettings"]


class Telegram:
    """The plugin: one channel, for the bot whose token the settings have."""

    def __init__(self, framework: Any) -> None:
        self._framework = framework

    @hookimpl
    def provide_channels(self, message_handler: Callable[[Any], Awaitable[None]]) -> list[TelegramChannel]:
        """Return the channel `telegram`, which runs if there is a token (BEHAVIOURS C4)."""
        return [TelegramChannel(TelegramSettings.of(self._framework), message_handler)]
