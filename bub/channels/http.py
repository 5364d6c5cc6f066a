"""Channels that are asked over HTTP: a webhook in a few lines, answered within the request if there is time."""

from __future__ import annotations

import hmac
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import Any
from uuid import uuid4

import trio

from bub.base.waiting import settled
from bub.channels.channel import Channel, UndeliverableError
from bub.channels.message import ChannelMessage
from bub.channels.server import Exchange, HttpError, HttpServer, Limits, ListenAddress, Request, Response
from bub.errors import BubError
from bub.log import log_exception, log_warning

__all__ = ["HttpChannel", "HttpError", "Request", "Response", "check_signature"]

_LAST_WORD = 1.0
"""How many seconds a request that the end of the process cuts off has to answer that its message is kept."""

_MOST_TOLD = 1_000
"""How many replies that a request was answered with may be on their way to `send`."""


@dataclass(eq=False, slots=True)
class _Asker:
    """A request that waits for the answer to its message."""

    answered: trio.Event = field(default_factory=trio.Event)
    replies: Sequence[ChannelMessage] = ()
    over: trio.Event = field(default_factory=trio.Event)
    """Set once nobody waits any more, told or not."""
    is_gone: bool = False


class HttpChannel(Channel):
    """The base of a channel that is asked over HTTP. A subclass says its `name`, and what a request means: `read`.

    `listen` is a port of this machine, which no other reaches, or an address such as "0.0.0.0:8080". `settings` are
    kept for the subclass.
    """

    path: str = "/"
    """The one path that is served; with `methods`."""
    methods: Collection[str] = ("POST",)
    origins: Collection[str] = ()
    """The web sites whose pages may ask, such as "https://example.org"; requests of any other page are refused."""
    answer_within: float = 30.0
    """How long, in seconds, a request waits for its answer; then the answer is 202. With 0 it is 202 at once."""
    most_bytes: int = 1_048_576
    """How large a body may be; a larger one is refused with 413."""
    most_connections: int = 100
    """How many may be open at once, those that wait for an answer included; one more is closed."""
    patience: float = 10.0
    """How long, in seconds, a request may take to come in, its message to be kept, and an answer to be read."""

    def __init__(
        self,
        message_handler: Callable[[Any], Awaitable[bool | None]],
        listen: int | str = 8080,
        *,
        settings: Any = None,
    ) -> None:
        self.settings = settings
        self.address = ListenAddress.of(f"127.0.0.1:{listen}" if isinstance(listen, int) else listen, beyond=True)
        """Where it listens; while it runs, with the port that it got."""
        self._hand_over = message_handler
        self._askers: dict[tuple[str, str], list[_Asker]] = {}
        self._told: deque[ChannelMessage] = deque(maxlen=_MOST_TOLD)
        self._is_ending = False

    # What a subclass says.

    def read(self, request: Request) -> Any:
        """What a request means: a message, or a `Response` if it is none; None is 204. Plain or async.

        The message goes to this channel, whatever it names, and gets a `message_id` if it has none. Raises `HttpError`
        to refuse the request.
        """
        raise NotImplementedError  # `run` says so before a request can come

    def answer(self, message: ChannelMessage, replies: Sequence[ChannelMessage]) -> Response:
        """The answer to a request whose message got these replies in time; none if nobody answered it."""
        said = [{"kind": reply.kind, "content": reply.content} for reply in replies]
        return Response.json(200, {"message_id": message.message_id, "replies": said})

    def accept(self, message: ChannelMessage) -> Response:
        """The answer to a request whose message is kept, and will be answered later."""
        return Response.json(202, {"message_id": message.message_id})

    async def deliver(self, message: ChannelMessage) -> None:
        """Send a reply for which no request waits any more, as `send` of other channels does. By itself it cannot."""
        raise UndeliverableError("no request waits for this reply any more")

    # What the manager asks of it.

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. When everything is to end, no request is taken any more."""
        self._is_ending = False
        if type(self).read is HttpChannel.read:  # said at the start, and not to the first who asks
            problem = f"the channel `{self.name}` has no `read`, which makes a message of a request"
            raise BubError(problem, help="give its class one that returns a message")
        server = HttpServer(self.name, self._handle, Limits(self.most_connections, self.patience))
        async with trio.open_nursery() as tasks:
            help_ = f"perhaps another program has the port; let `{self.name}` listen at another"
            self.address = await tasks.start(partial(server.serve, self.address, help=help_))
            task_status.started()
            if self.desk is not None:
                await self.desk.draining()
                self._is_ending = True
                server.close()
            await trio.sleep_forever()

    def on_answered(self, message: ChannelMessage, replies: Sequence[ChannelMessage]) -> None:
        """Tell the requests that wait for the answer to a message."""
        for asker in self._askers.get((message.chat_id, message.message_id), ()):
            asker.replies = [one for one in replies if (one.channel, one.chat_id) == (self.name, message.chat_id)]
            asker.answered.set()

    async def send(self, message: ChannelMessage) -> None:
        """Deliver a reply, unless a request that waited for it has already returned it."""
        for asker in list(self._askers.get((message.chat_id, message.answers), ())):
            await asker.over.wait()
        if message in self._told:
            self._told.remove(message)
        else:
            await self.deliver(message)

    # One request.

    async def _handle(self, exchange: Exchange) -> None:
        came = await self._receive(exchange)
        if isinstance(came, Response):
            await exchange.respond(came)
        else:
            await self._see_to(came, exchange)

    async def _receive(self, exchange: Exchange) -> ChannelMessage | Response:
        """What somebody asks: a message that is to be answered, or the answer itself."""
        head = exchange.request
        if head.path != self.path:
            raise HttpError(404, "there is nothing here")
        if head.method not in self.methods:
            raise HttpError(405, f"only {' and '.join(self.methods)}", allow=", ".join(self.methods))
        origin = head.headers.get("origin")
        if origin is not None and origin not in self.origins:
            raise HttpError(403, "pages of other sites may not send requests here")
        came = await self._own(self.read, await exchange.read(self.most_bytes))
        if came is None:
            return Response(204)
        if isinstance(came, Response):
            return came
        message = ChannelMessage.of(came)
        return replace(
            message, channel=self.name, message_id=message.message_id or message.once or uuid4().hex, lifespan=None
        )

    async def _see_to(self, message: ChannelMessage, exchange: Exchange) -> None:
        """Have a message kept, and tell whoever asked what came of it."""
        asker, key = _Asker(), (message.chat_id, message.message_id)
        self._askers.setdefault(key, []).append(asker)
        try:
            follows = await self._keep(message)
            has_time = self.answer_within > 0 and not self._is_ending
            if has_time and follows:
                await self._wait(asker, message, exchange)
            if asker.is_gone:
                return
            if not (has_time and asker.answered.is_set()):
                self._forget(key, asker)
                await exchange.respond(await self._own(self.accept, message))
                return
            await exchange.respond(await self._own(self.answer, message, asker.replies))
            self._told += asker.replies
        finally:
            self._forget(key, asker)
            asker.over.set()

    async def _keep(self, message: ChannelMessage) -> bool:
        """Hand a message over: it is on the disk when this returns; says whether a turn of it follows.

        Raises `HttpError` (503) if it cannot be kept.
        """
        try:
            with trio.fail_after(self.patience):
                return await self._hand_over(message) is not False
        except (BubError, trio.TooSlowError) as error:
            log_warning(f"{self.name}.not_kept", error=error)
            raise HttpError(503, "Bub cannot keep this message now: try again later", retry_after="10") from None

    async def _wait(self, asker: _Asker, message: ChannelMessage, exchange: Exchange) -> None:
        """Wait for the answer as long as there is time for it, and somebody is there to read it."""
        try:
            with trio.move_on_after(self.answer_within):
                async with trio.open_nursery() as tasks:
                    tasks.start_soon(self._watch, asker, exchange, tasks.cancel_scope)
                    await asker.answered.wait()
                    tasks.cancel_scope.cancel()
        except BaseException:  # the process ends: the message is on the disk, and is answered after the next start
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _LAST_WORD), suppress(Exception):
                await exchange.respond(await self._own(self.accept, message))
            raise

    async def _watch(self, asker: _Asker, exchange: Exchange, waiting: trio.CancelScope) -> None:
        await exchange.hung_up()
        asker.is_gone = True
        waiting.cancel()

    def _forget(self, key: tuple[str, str], asker: _Asker) -> None:
        askers = self._askers.get(key, [])
        if asker in askers:
            askers.remove(asker)
        if not askers:
            self._askers.pop(key, None)

    async def _own(self, function: Callable[..., Any], *given: Any) -> Any:
        """What a method of the subclass comes to. One that fails or takes too long is logged, and answered with 500."""
        try:
            with trio.fail_after(self.patience):
                return await settled(function(*given))
        except HttpError:
            raise
        except Exception as error:  # noqa: BLE001 (it concerns this request alone)
            log_exception(f"{self.name}.failed", error)
            raise HttpError(500, "something went wrong here") from None


def check_signature(
    request: Request,
    secret: str,
    *,
    header: str = "x-signature",
    prefix: str = "",
    timestamp: str = "x-timestamp",
    signed: str = "{timestamp}.",
    tolerance: float = 300.0,
) -> None:
    """Check that who sent a request knows a secret, and sent it just now. Raises `HttpError` (401) if not.

    The header `header` has to be `prefix` and the HMAC-SHA256, in hexadecimal, of the body as it came behind `signed`.
    In that, `{timestamp}` stands for the header `timestamp`: a Unix time that is off by no more than `tolerance`
    seconds. With `timestamp=""` and `signed=""` the body alone is signed, and a copy of a request is as good as the
    first: then let the message have a `once`.
    """
    if not secret:
        raise BubError("the secret that signs requests is empty", help="set it in the settings of the channel")
    before = ""
    if timestamp:
        at = request.headers.get(timestamp, "")
        if not (at.isascii() and at.isdigit()) or len(at) > 12 or abs(time.time() - int(at)) > tolerance:
            raise HttpError(401, f"`{timestamp}` has to be the Unix time of now")
        before = signed.replace("{timestamp}", at)
    right = prefix + hmac.new(secret.encode(), before.encode() + request.body, sha256).hexdigest()
    if not hmac.compare_digest(right.encode(), request.headers.get(header, "").encode("latin-1", "replace")):
        raise HttpError(401, "the signature does not match")
