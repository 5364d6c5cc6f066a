"""What the endpoints of the page ask of the process around them: the runtime, and whoever serves it."""

from __future__ import annotations

import time
from collections.abc import Mapping

import msgspec
import trio

from bub.framework import BubFramework
from bub.studio.access import Access
from bub.studio.channel import PageChannel
from bub.studio.chatlog import ChatLog
from bub.studio.desks import Desk
from bub.studio.live import Live
from bub.studio.pulse import Pulse
from bub.studio.recorder import Recorder
from bub.studio.settings import StudioSettings
from bub.studio.surroundings import Surroundings
from bub.studio.views.check import TextChecker


class Studio(msgspec.Struct, eq=False):
    """The page of one runtime: what it is served with, and what it can see.

    `desks` are the inboxes whose questions and dead letters it shows, each by what the names of its entries begin with.
    """

    framework: BubFramework
    settings: StudioSettings
    access: Access
    around: Surroundings
    recorder: Recorder
    live: Live
    pulse: Pulse
    chats: ChatLog
    channel: PageChannel
    desks: Mapping[str, Desk]
    checker: TextChecker = msgspec.field(default_factory=TextChecker)
    writing: trio.Lock = msgspec.field(default_factory=trio.Lock)
    """Held by who writes the file."""
    started: float = msgspec.field(default_factory=time.time)
