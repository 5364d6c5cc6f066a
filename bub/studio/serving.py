"""Serving the page beside a runtime, until that ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import partial
from typing import Any, TypeAlias

import trio

from bub.channels.web import WebLimits, WebServer
from bub.framework import BubFramework
from bub.studio.access import Access
from bub.studio.app import make_app
from bub.studio.channel import PageChannel
from bub.studio.chatlog import ChatLog
from bub.studio.desks import Desk
from bub.studio.files import read_page
from bub.studio.live import Live
from bub.studio.pulse import Pulse
from bub.studio.recorder import Recorder
from bub.studio.settings import StudioSettings
from bub.studio.studio import Studio
from bub.studio.surroundings import Surroundings

_LIMITS = WebLimits(connections=128, grace=2.0)
"""A browser has up to six connections for each window, and its feed keeps one."""

Event: TypeAlias = MutableMapping[str, Any]


class StudioServer:
    """Serves the page of a running framework; `around` is what serves the runtime itself.

    `channel` carries its chats: whoever runs it hands `desks` over, which are the inboxes whose questions and dead
    letters the page shows, each by what the names of its entries begin with.
    """

    def __init__(
        self,
        framework: BubFramework,
        settings: StudioSettings,
        around: Surroundings,
        *,
        chats: ChatLog,
        channel: PageChannel,
        desks: Mapping[str, Desk],
    ) -> None:
        self._framework = framework
        self._settings = settings
        self._around = around
        self._chats = chats
        self._channel = channel
        self._desks = desks
        self._app: Any = None

    async def serve(self, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; tells `task_status` the address with the token, for the operator's eyes alone.

        Raises `BubError` if the port cannot be had.
        """
        page = await trio.to_thread.run_sync(read_page)
        server = WebServer("studio", self._answer, limits=_LIMITS, certificate=self._settings.certificate)
        recorder, pulse = Recorder(), Pulse(tuple(self._desks.values()), self._around)
        with self._framework.watch(recorder):
            async with trio.open_nursery() as tasks:
                help_ = "perhaps another program has the port; `gateway.studio.listen` or `--listen` chooses another"
                bound = await tasks.start(partial(server.serve, self._settings.listen, help=help_))
                access = Access(self._settings, bound.port)
                self._framework.keep_secret([access.url.rpartition("#")[2]])
                studio = Studio(
                    self._framework,
                    self._settings,
                    access,
                    self._around,
                    recorder,
                    Live(lambda: self._framework.turns_under_way),
                    pulse,
                    self._chats,
                    self._channel,
                    self._desks,
                )
                self._app = make_app(studio, access, page)
                tasks.start_soon(pulse.run)
                task_status.started(access.url)

    async def _answer(
        self, scope: Event, receive: Callable[[], Awaitable[Event]], send: Callable[[Event], Awaitable[None]]
    ) -> None:
        """Answer a request; in the moment before the token is made, with that it is too early."""
        if self._app is None:
            await send({"type": "http.response.start", "status": 503, "headers": [(b"retry-after", b"1")]})
            await send({"type": "http.response.body", "body": b""})
            return
        await self._app(scope, receive, send)
