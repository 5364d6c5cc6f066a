"""The section `telegram` of the settings, and who may talk to the bot."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from bub import Settings

MEDIA_LIMIT = 2 * 1024 * 1024
EVERYONE = "*"


class TelegramSettings(Settings, section="telegram"):
    """What `schemas/settings/telegram.schema.json` describes."""

    token: str | None = None
    allow_users: list[str] = msgspec.field(default_factory=list)
    allow_chats: list[str] = msgspec.field(default_factory=list)
    base_url: str | None = None
    proxy: str | None = None
    keyword: str = "bub"
    stream: bool = True
    media_limit: int = MEDIA_LIMIT

    @property
    def guests(self) -> GuestList:
        """Who may talk to the bot."""
        return GuestList(
            frozenset(user.removeprefix("@").casefold() for user in self.allow_users), frozenset(self.allow_chats)
        )


class GuestList(msgspec.Struct, frozen=True):
    """Who may talk to the bot, and where; `users` are ids and names in small letters without `@`.

    If both are listed, the user and the chat have to be; if one is, that one decides; if none is, nobody may
    (BEHAVIOURS C28, decision 11). `*` stands for all.
    """

    users: frozenset[str]
    chats: frozenset[str]

    def admits(self, chat_id: int | str, user_id: int | str, username: str | None) -> bool:
        """Return whether what this user writes in this chat is answered."""
        if not self.users and not self.chats:
            return False
        names = {str(user_id), (username or "").casefold()}
        return _contains_any(self.users, names) and _contains_any(self.chats, {str(chat_id)})

    @property
    def is_empty(self) -> bool:
        """Whether nobody can be admitted."""
        return not self.users and not self.chats


def _contains_any(listed: Collection[str], names: set[str]) -> bool:
    return not listed or EVERYONE in listed or any(name in listed for name in names if name)
