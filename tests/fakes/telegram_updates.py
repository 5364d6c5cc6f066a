"""Updates of Telegram made of messages, and read without a server."""

from __future__ import annotations

from typing import Any

from fakes.telegram import ADA, BOT, TOKEN, private
from telegram import User

from bub.channels import ChannelMessage
from bub_plugins.telegram import TelegramSettings
from bub_plugins.telegram.inbound import UpdateReader

EVERYBODY = {"allow_users": ["*"]}
ME = User.de_json(BOT, None)
PHOTO = [
    {"file_id": "small", "file_unique_id": "s", "width": 90, "height": 90, "file_size": 1_000},
    {"file_id": "medium", "file_unique_id": "m", "width": 320, "height": 320, "file_size": 30_000},
    {"file_id": "large", "file_unique_id": "l", "width": 1280, "height": 1280, "file_size": 3_000_000},
]


class Updates:
    """Makes updates of messages, and reads them."""

    def __init__(self, **settings: Any) -> None:
        assert ME is not None
        self.reader = UpdateReader(TelegramSettings(token=TOKEN, **{**EVERYBODY, **settings}), ME)
        self.count = 0
        self.now = 0.0

    def read(self, text: str | None = None, *, kind: str = "message", **fields: Any) -> Any:
        self.count += 1
        message = {"message_id": self.count, "date": 1_700_000_000, "chat": private(), "from": ADA, **fields}
        if text is not None:
            message["text"] = text
        return self.reader.read({"update_id": 500 + self.count, kind: message}, self.now)

    def hear(self, text: str | None = None, **fields: Any) -> ChannelMessage:
        found = self.read(text, **fields)
        assert isinstance(found, ChannelMessage)
        return found
