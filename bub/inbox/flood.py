"""Telling a chat that writes more than its share of the inbox that the rest has to wait."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeAlias

from bub.channels.message import ERROR, ChannelMessage

FLOODED = "You write faster than I can answer. Nothing is lost: the rest waits its turn."

TELL_AGAIN = 60.0
"""How many seconds pass before a chat gets the notice again."""

Address: TypeAlias = tuple[str, str]


class FloodNotices:
    """Remembers which chats got a notice of late."""

    def __init__(self) -> None:
        self._told: OrderedDict[Address, float] = OrderedDict()

    def notice_for(self, message: ChannelMessage, now: float) -> ChannelMessage | None:
        """Return what to tell the chat that began a flood with a message at `now`; None if it got a notice of late."""
        while self._told and next(iter(self._told.values())) <= now - TELL_AGAIN:
            self._told.popitem(last=False)
        address = (message.channel, message.chat_id)
        if address in self._told:
            return None
        self._told[address] = now
        return ChannelMessage(
            message.channel,
            message.chat_id,
            FLOODED,
            session_id=message.session_id,
            kind=ERROR,
            answers=message.message_id,
        )
