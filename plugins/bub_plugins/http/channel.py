"""The channel: one server for webhooks and for the API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import trio

from bub.channels import Channel, ChannelMessage, TryLaterError
from bub.channels.packages import lack_packages
from bub.streaming import StreamEvent
from bub_plugins.http.settings import HttpSettings, may_ask

if TYPE_CHECKING:  # a channel that does not run loads no server
    from bub_plugins.http.serving import Serving

_FIXED = ("listen", "public_url", "tls", "connections")
"""The settings that need a restart."""

_EXTRA = ("hypercorn", "starlette")
_NOT_LISTENING = 3.0


class HttpApi(Channel):
    """The channel `http`. `framework` is what turns run on; `message_handler` keeps a message on the disk."""

    name = "http"
    shows_questions = True  # nobody here may answer them, but the operator can: with `bub inbox` and in the studio

    def __init__(self, framework: Any, message_handler: Callable[[Any], Awaitable[bool | None]]) -> None:
        self._framework = framework
        self._settings = HttpSettings.of(framework)
        self._hand_over = message_handler
        self._serving: Serving | None = None
        self.address: Any = None
        """Where it listens while it runs."""

    @property
    def enabled(self) -> bool:
        """Whether there is anybody who may ask."""
        return bool(self._settings.clients or self._settings.webhooks)

    @property
    def why_disabled(self) -> str:
        return "" if self.enabled else "list who may ask in `settings.http.clients` or `settings.http.webhooks`"

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. When everything is to end, no request is taken any more."""
        await self._serve(task_status)

    async def connect(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Be there for turns while another gateway listens: what they tell goes to nobody here."""
        task_status.started()
        await trio.sleep_forever()

    async def _serve(self, task_status: trio.TaskStatus[None]) -> None:
        try:
            from bub_plugins.http.serving import open_serving
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in _EXTRA:
                raise
            raise lack_packages("the channel `http`") from None
        opened = open_serving(self._framework, self._settings, self._hand_over, self.desk)
        async with opened as serving, trio.open_nursery() as tasks:
            self.address = await tasks.start(serving.serve)
            self._serving = serving
            try:
                task_status.started()
                if self.desk is not None:
                    await self.desk.draining()
                    serving.close()
                await trio.sleep_forever()
            finally:
                self._serving = None

    def reload(self, framework: Any) -> Collection[str]:
        """Take over clients, webhooks and limits at once."""
        new = HttpSettings.of(framework)
        if self._serving is not None:
            self._serving.take_over(new, framework)
        fixed = [f"http.{name}" for name in _FIXED if getattr(new, name) != getattr(self._settings, name)]
        self._settings = new
        return fixed

    def admits(self, message: ChannelMessage) -> bool:
        """Whether its client or webhook is still there, and may still ask the profile."""
        return may_ask(self._settings, message.chat_id, message.profile)

    def on_event(self, event: StreamEvent, message: ChannelMessage) -> None:
        """Tell the request that waits."""
        if self._serving is not None:
            self._serving.door.askers.tell(event, message)

    def on_answered(self, message: ChannelMessage, replies: Sequence[ChannelMessage]) -> None:
        """Tell the request that waits that the turn is over."""
        if self._serving is not None:
            self._serving.end(message, replies)

    async def send(self, message: ChannelMessage) -> None:
        """Call a reply back, unless a request that waited for it has already returned it."""
        if self._serving is None:
            raise TryLaterError("the channel `http` does not listen", seconds=_NOT_LISTENING)
        await self._serving.send(message)
