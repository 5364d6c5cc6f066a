"""The page of a runtime that runs for it alone: `bub studio`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import trio

from bub import __version__
from bub.base.redis.settings import store_address
from bub.framework import BubFramework
from bub.inbox.mailbox import Mailbox
from bub.inbox.manager import ChannelManager
from bub.pipeline.report.reloads import MOST_KEPT, Reload
from bub.studio.channel import PageChannel
from bub.studio.chatlog import ChatLog
from bub.studio.desks import Desk, FileDesk, OwnDesk, StoreDesk
from bub.studio.serving import StudioServer
from bub.studio.settings import StudioSettings, read_settings

OWN = "chat-"
"""How the names of what its own chats ask begin: those of a gateway beside it are as `bub inbox` shows them."""


class Alone:
    """What the page sees around a runtime that no gateway serves."""

    is_gateway = False
    channels: Sequence[str] = ()

    def __init__(self, framework: BubFramework) -> None:
        self._framework = framework
        self.reloads: deque[Reload] = deque(maxlen=MOST_KEPT)
        self.times_reloaded = 0

    def note_reload(self, reload: Reload) -> None:
        """Keep what became of a reload."""
        self.reloads.append(reload)
        self.times_reloaded += 1

    def describe_health(self) -> Mapping[str, Any]:
        """Describe what can go wrong here: plugins."""
        problems = self._framework.plugin_problems
        return {"status": "degraded" if problems else "ok", "version": __version__, "plugins": problems}


async def serve_alone(
    framework: BubFramework, *, listen: str | None, write: bool, announce: Callable[[str], None]
) -> None:
    """Run a framework with its page until cancelled; `announce` gets the address with the token.

    Its chats are in memory, as those of `bub chat`. The questions and dead letters are those of the workspace, too,
    which a gateway may be at work on. Raises `UsageError` for settings that contradict themselves, `BubError` if the
    port cannot be had.
    """
    settings = studio_settings(framework, listen=listen, write=write)
    async with framework.running(), trio.open_nursery() as tasks:
        chats, store = ChatLog(), Mailbox(None, framework.workspace)
        channel = PageChannel(chats, lambda: framework.mask, is_kept=False)
        manager = ChannelManager(framework, [], mailbox=store, counts=framework.counts, beside=[channel])
        desks = {"": _desk_of_workspace(framework), OWN: OwnDesk(manager, store)}
        server = StudioServer(framework, settings, Alone(framework), chats=chats, channel=channel, desks=desks)
        await tasks.start(manager.run)
        announce(await tasks.start(server.serve))


def studio_settings(framework: BubFramework, *, listen: str | None = None, write: bool = False) -> StudioSettings:
    """Return how the page of a framework is to be served; paths are below the folder of its file."""
    gateway = framework.settings.get("gateway")
    section = gateway.get("studio") if isinstance(gateway, Mapping) else None
    file = framework.pipeline_file
    folder = file.parent if file is not None else framework.workspace
    return read_settings(section, folder, listen=listen, write=write)


def _desk_of_workspace(framework: BubFramework) -> Desk:
    address = store_address(framework.settings)
    if address is not None:
        return StoreDesk(address, framework.workspace)
    return FileDesk(framework.home, framework.workspace)
