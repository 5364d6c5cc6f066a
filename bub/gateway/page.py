"""The page of a gateway: `bub studio`, served beside its channels."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import trio

from bub.errors import UsageError
from bub.framework import BubFramework
from bub.inbox.mailbox import Mailbox
from bub.inbox.manager import ChannelManager
from bub.inbox.started import is_started_by_bub
from bub.inbox.store import InboxStore
from bub.studio.alone import OWN, studio_settings
from bub.studio.channel import PageChannel
from bub.studio.chatlog import ChatLog
from bub.studio.desks import Desk, OwnDesk
from bub.studio.serving import StudioServer
from bub.studio.surroundings import Surroundings


class Page:
    """The page of a framework whose settings say where it is served.

    Of several gateways on one store (`is_shared`), each has chats of its own, in memory: their answers are seen where
    they are made. Raises `UsageError` for settings that contradict themselves, and in a process that Bub started: who
    reads the token may say yes.
    """

    def __init__(self, framework: BubFramework, *, is_shared: bool) -> None:
        self._framework = framework
        self._is_shared = is_shared
        self._settings = studio_settings(framework)
        if is_started_by_bub(os.environ):
            raise UsageError(
                "Bub started this command, and only a person may open a page that says yes",
                help="run it in a terminal that you opened yourself, or take `gateway.studio` out",
            )
        self._chats = ChatLog()
        self._channel = PageChannel(self._chats, lambda: framework.mask, is_kept=not is_shared)

    @property
    def channels(self) -> Sequence[PageChannel]:
        """The channels that the gateway runs for it."""
        return () if self._is_shared else (self._channel,)

    async def serve(
        self,
        around: Surroundings,
        manager: ChannelManager,
        store: InboxStore,
        announce: Callable[[str], None],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until cancelled; `announce` gets the address with the token before `task_status` does.

        `manager` runs the gateway's channels, on `store`. Raises `BubError` if the port cannot be had.
        """
        desks: dict[str, Desk] = {"": OwnDesk(manager, store)}
        async with trio.open_nursery() as tasks:
            if self._is_shared:
                own = Mailbox(None, self._framework.workspace)
                chats = ChannelManager(self._framework, [], mailbox=own, beside=[self._channel])
                desks[OWN] = OwnDesk(chats, own)
                await tasks.start(chats.run)
            server = StudioServer(
                self._framework, self._settings, around, chats=self._chats, channel=self._channel, desks=desks
            )
            announce(await tasks.start(server.serve))
            task_status.started()
