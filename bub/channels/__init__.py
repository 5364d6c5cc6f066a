"""Channels: the surfaces that messages come from and go to, and what runs them.

`ChannelManager` is imported when it is first used: a plugin that only brings a channel does not load what runs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bub.approval import CannotAskError
from bub.base.clients.request import ClientRequest, ClientResult, ClientTool, text_of_results
from bub.base.surfaces import Surface
from bub.channels.channel import Channel, RefusedError, ShownQuestion, TakenAnswer, TryLaterError, UndeliverableError
from bub.channels.message import ChannelMessage, joined

__all__ = [
    "CannotAskError",
    "Channel",
    "ChannelManager",
    "ChannelMessage",
    "ClientRequest",
    "ClientResult",
    "ClientTool",
    "RefusedError",
    "ShownQuestion",
    "Surface",
    "TakenAnswer",
    "TryLaterError",
    "UndeliverableError",
    "joined",
    "text_of_results",
]


def __getattr__(name: str) -> Any:
    if name != "ChannelManager":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module("bub.inbox.manager").ChannelManager
