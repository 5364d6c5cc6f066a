"""What runs while the channel listens: the server, what came before, and who calls back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import trio

from bub.channels import ChannelMessage, UndeliverableError
from bub.channels.web import Certificate, ListenAddress, WebLimits, WebServer, address_for
from bub_plugins.http.app import build_app
from bub_plugins.http.asking import is_no_answer, replies_to
from bub_plugins.http.door import CHANNEL, Door, Rules
from bub_plugins.http.hooks.calling import call_back
from bub_plugins.http.hooks.seen import Seen
from bub_plugins.http.settings import HttpSettings, webhook_of

_ENDING = 3_600.0
"""How long, in seconds, requests that wait may take once all ends: who runs the channel ends it before."""


class Serving:
    """The channel while it listens. `door` is what its routes ask."""

    def __init__(self, door: Door, seen: Seen, client: httpx.AsyncClient) -> None:
        self.door = door
        self._seen = seen
        self._client = client
        settings = door.settings
        is_encrypted = settings.tls is not None or (settings.public_url or "").startswith("https://")
        self._address = address_for(settings.listen, section=CHANNEL, is_encrypted=is_encrypted)
        limits = WebLimits(connections=settings.connections, grace=_ENDING)
        certificate = _certificate(settings, door.framework.workspace)
        self._server = WebServer(CHANNEL, build_app(door, seen), limits=limits, certificate=certificate)

    async def serve(self, *, task_status: trio.TaskStatus[ListenAddress] = trio.TASK_STATUS_IGNORED) -> None:
        """Answer until cancelled; tells `task_status` where."""
        help_ = "perhaps another program has the port; set `settings.http.listen` to another one"
        await self._server.serve(self._address, help=help_, task_status=task_status)

    def close(self) -> None:
        """Take no request any more."""
        self._server.close()

    def take_over(self, settings: HttpSettings, framework: Any) -> None:
        """Take over clients, webhooks and limits, and what is loaded by now.

        Raises `BubError`, and changes nothing, if they are wrong.
        """
        rules = Rules(settings)
        rules.check_profiles(framework.profiles)
        self.door.rules, self.door.framework = rules, framework

    def end(self, message: ChannelMessage, replies: Sequence[ChannelMessage]) -> None:
        """Tell the request that waits that its turn is over, and keep the answer of one that may come again."""
        if message.once and webhook_of(message.chat_id):
            self._seen.note_answer(message, replies_to(message, replies))
        self.door.askers.end(message, replies)

    async def send(self, reply: ChannelMessage) -> None:
        """Deliver a reply (`Channel.send`)."""
        for asked in self.door.askers.find_unanswered(reply):
            self.end(asked, [reply])
        if is_no_answer(reply) or await self.door.askers.was_told(reply):
            return
        webhook = webhook_of(reply.chat_id)
        if webhook is None:
            return  # the client has hung up: the answer is on the tape of its session, for its next request
        hook = self.door.settings.webhooks.get(webhook)
        if hook is not None and hook.callback is not None:
            await call_back(self._client, webhook, hook.callback, reply)
        elif self._seen.answer_to(reply.answers) is None:
            raise UndeliverableError("no request waits for this reply any more")


@asynccontextmanager
async def open_serving(
    framework: Any, settings: HttpSettings, hand_over: Callable[[Any], Awaitable[bool | None]], desk: Any
) -> AsyncIterator[Serving]:
    """Open what the channel needs to listen. Raises `BubError` if its settings cannot be followed."""
    rules = Rules(settings)
    rules.check_profiles(framework.profiles)
    notes = await desk.recall(CHANNEL) if desk is not None else {}

    def remember(name: str, value: str) -> None:
        if desk is not None:
            desk.remember(CHANNEL, name, value)

    async with httpx.AsyncClient(follow_redirects=False) as client:
        yield Serving(Door(framework, rules, hand_over), Seen(notes, remember), client)


def _certificate(settings: HttpSettings, workspace: Path) -> Certificate | None:
    tls = settings.tls
    return Certificate(str(workspace / tls.certificate), str(workspace / tls.key)) if tls is not None else None
