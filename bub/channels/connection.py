"""One connection that speaks HTTP/1.1 with an ASGI app; whatever a stranger can make slow or large has a bound.

Hypercorn's own TCP server waits without a limit, and beyond a cancellation, for a client that does not read, and for an
app that answers before it has read a large body; it switches to HTTP/2 if a client wants to. So the connection is our
own, and only the protocol between it and the app is Hypercorn's, which is imported when a server begins.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from math import inf
from typing import Any, TypeAlias

import msgspec
import trio

from bub.log import log_exception

Event: TypeAlias = MutableMapping[str, Any]
App: TypeAlias = Callable[[Event, Callable[[], Awaitable[Event]], Callable[[Event], Awaitable[None]]], Awaitable[None]]
"""An ASGI app, such as one of Starlette; it is asked for `http` alone, and has no lifespan."""

_CHUNK = 16_384
_MOST_WAITING = 8
"""How many pieces of a body wait for an app that does not read them; then the connection is not read either."""
_WRITTEN_AT_ONCE = 65_536
_LINGER = 1.0
"""How long, in seconds, what nobody wants to read is thrown away, so that the answer reaches who is still sending."""
_MOST_DROPPED = 65_536
"""How much is read of a body that nobody wants, so that the connection can be kept."""
_NEVER = 2**62


class WebLimits(msgspec.Struct, frozen=True):
    """What a server puts up with; times are seconds.

    `connections` may be open at once. One more takes the place of the one that has been idle for longest; if all are
    busy, it is closed. The head of a request has `patience` to come in, each piece of an answer to be read. A
    connection is kept for `idle` between two requests: longer than clients keep theirs, so that none is cut off.
    When the server closes, what is under way has `grace` to end.
    """

    connections: int = 256
    patience: float = 10.0
    idle: float = 75.0
    grace: float = 5.0
    head_bytes: int = 16_384


class _Events:
    """What an app receives of one request: pieces of its body, then that the client has gone."""

    def __init__(self) -> None:
        self._give, self._take = trio.open_memory_channel[Event](_MOST_WAITING)
        self.is_whole = False
        """Whether all of the request has come."""

    async def put(self, event: Event) -> None:
        """Hand an event over; wait while too many wait. What nobody will take any more is dropped."""
        if event["type"] == "http.request":
            self.is_whole = not event["more_body"]
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self._give.send(event)
        else:
            self._give.close()

    async def get(self) -> Event:
        """The next event."""
        try:
            return await self._take.receive()
        except (trio.EndOfChannel, trio.ClosedResourceError):
            return {"type": "http.disconnect"}

    async def drop(self) -> None:
        """Throw away what is left of a body that nobody wants, as long as that is little."""
        dropped = 0
        with trio.move_on_after(_LINGER):
            while not self.is_whole and dropped < _MOST_DROPPED:
                event = await self.get()
                dropped += len(event.get("body", b"")) if event["type"] == "http.request" else _MOST_DROPPED

    def close(self) -> None:
        """Say that nothing will be taken any more."""
        self._take.close()
        self._give.close()


class _Answer:
    """The answer of an app on its way: one that comes before the whole request tells the client what follows.

    A client keeps the connection, unless it is told otherwise: so what is left of a small body is read first, and of a
    large one the client learns that the connection is to be closed.
    """

    def __init__(self, events: _Events, send: Callable[[Event | None], Awaitable[None]]) -> None:
        self._events = events
        self._send = send
        self._head: Event | None = None

    async def take(self, event: Event) -> None:
        """Take what the app sends."""
        if event["type"] == "http.response.start" and not self._events.is_whole:
            self._head = event
            return
        head, self._head = self._head, None
        if head is not None:
            if not event.get("more_body"):
                await self._events.drop()
            if not self._events.is_whole:
                head = {**head, "headers": [*head.get("headers", ()), (b"connection", b"close")]}
            await self._send(head)
        await self._send(event)


class Connection:
    """A connection with all its requests, one after another: what Hypercorn's protocol calls a task group, too."""

    def __init__(
        self, name: str, app: App, limits: WebLimits, stream: trio.SocketStream, context: ssl.SSLContext | None
    ) -> None:
        self._name = name
        self.app = app
        self._limits = limits
        self._socket = stream.socket
        self._stream: trio.abc.Stream = stream
        if context is not None:
            self._stream = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        self._all = trio.CancelScope()
        self._reading = trio.CancelScope(deadline=trio.current_time() + limits.patience)
        self._writing = trio.Lock()
        self._tasks: trio.Nursery
        self._protocol: Any = None
        self.ending = trio.Event()
        self._is_closing = False
        self._is_quiet = True
        self.idle_since = trio.current_time()
        """Since when no request is under way; infinity if one is."""

    async def run(self, begin: Begin) -> None:
        """Answer requests until either side closes the connection."""
        with self._all:
            if isinstance(self._stream, trio.SSLStream):
                with trio.fail_after(self._limits.patience):
                    await self._stream.do_handshake()
            self._protocol = begin(self)
            async with trio.open_nursery() as self._tasks:
                with self._reading, suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await self._read()
                await self._tell_gone()
            if isinstance(self._stream, trio.SSLStream):
                with trio.move_on_after(_LINGER):
                    await self._stream.aclose()

    def end_soon(self) -> None:
        """End after the request that is under way, if there is one, else now."""
        self.ending.set()
        if self.idle_since < inf:
            self.cut()

    def cut(self) -> None:
        """End now."""
        self._all.cancel()

    @property
    def is_encrypted(self) -> bool:
        return isinstance(self._stream, trio.SSLStream)

    @property
    def state(self) -> dict[str, Any]:
        """What each request finds in `scope["state"]`."""
        return {"ending": self.ending}

    @property
    def client(self) -> tuple[str, int] | None:
        host, port, *_ = self._socket.getpeername()
        return host, port

    @property
    def server(self) -> tuple[str, int] | None:
        host, port, *_ = self._socket.getsockname()
        return host, port

    async def _read(self) -> None:
        """Give what comes in to the protocol; once the answer is over and the connection to be closed, to nobody."""
        from hypercorn.events import RawData

        while data := await self._stream.receive_some(_CHUNK):
            if self._is_closing:
                continue
            if self._is_quiet:  # the first byte of a head: its time begins
                self._is_quiet = False
                self._reading.deadline = min(self._reading.deadline, trio.current_time() + self._limits.patience)
            await self._protocol.handle(RawData(bytes(data)))

    async def _tell_gone(self) -> None:
        """Let the app see to its end, for which it has as long as for anything else."""
        from hypercorn.events import Closed

        if self.idle_since == inf:
            self._all.deadline = min(self._all.deadline, trio.current_time() + self._limits.patience)
        await self._protocol.handle(Closed())

    # What Hypercorn's protocol calls.

    async def send(self, event: Any) -> None:
        """Do what the protocol wants: send, close, or know whether a request is under way."""
        from hypercorn.events import Closed, RawData, Updated

        if isinstance(event, RawData):
            await self._write(event.data)
        elif isinstance(event, Updated):
            self.idle_since = trio.current_time() if event.idle else inf
            self._is_quiet = event.idle
            self._reading.deadline = trio.current_time() + self._limits.idle if event.idle else inf
        elif isinstance(event, Closed):
            await self._close()

    async def spawn_app(
        self, app: Any, config: Any, scope: Event, send: Callable[[Event | None], Awaitable[None]]
    ) -> Callable[[Event], Awaitable[None]]:
        """Begin to answer a request; return what takes its events."""
        events = _Events()
        self._tasks.start_soon(self._answer, scope, events, send)
        return events.put

    def spawn(self, function: Callable[..., Any], *given: Any) -> None:
        """Begin a task of the connection."""
        self._tasks.start_soon(function, *given)

    async def _answer(self, scope: Event, events: _Events, send: Callable[[Event | None], Awaitable[None]]) -> None:
        try:
            if scope["type"] == "http":
                await self.app(scope, events.get, _Answer(events, send).take)
        except Exception as error:  # noqa: BLE001 (it concerns this request alone)
            log_exception(f"{self._name}.failed", error)
        events.close()
        await send(None)

    async def _write(self, data: bytes) -> None:
        """Send, with a limit for each piece. A piece that was cut off ends the connection: its rest cannot follow."""
        async with self._writing:
            if self._is_closing:
                return
            try:
                for at in range(0, len(data), _WRITTEN_AT_ONCE):
                    with trio.fail_after(self._limits.patience):
                        await self._stream.send_all(data[at : at + _WRITTEN_AT_ONCE])
                return
            except (OSError, trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
                self._is_closing = True
            except BaseException:
                self._all.cancel()
                raise
        await self._tell_gone()

    async def _close(self) -> None:
        """Say that nothing more comes, and go on reading for a moment, so that what was said arrives."""
        if self._is_closing:
            return
        self._is_closing = True
        self._reading.deadline = trio.current_time() + _LINGER
        if isinstance(self._stream, trio.SocketStream):
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError):
                await self._stream.send_eof()
        await self._tell_gone()


class _Flag:
    """An event, as Hypercorn sees one."""

    def __init__(self, event: trio.Event) -> None:
        self._event = event
        self.wait = event.wait
        self.is_set = event.is_set

    async def set(self) -> None:
        self._event.set()

    async def clear(self) -> None:
        raise NotImplementedError  # a server that has closed stays closed


Begin: TypeAlias = Callable[[Connection], Any]


def speak_http(limits: WebLimits) -> Begin:
    """Return what begins the protocol of a connection: Hypercorn's HTTP/1.1, which never becomes another one."""
    import h11
    from hypercorn.config import Config
    from hypercorn.events import Closed
    from hypercorn.protocol.h11 import H11Protocol
    from hypercorn.trio.worker_context import WorkerContext

    class Http1(H11Protocol):
        async def _check_protocol(self, event: Any) -> None:
            """Take no offer to go on with HTTP/2, as any server may do (RFC 9110, 7.8)."""

        async def _create_stream(self, request: h11.Request) -> None:
            """Begin to answer a request as any other, also one that offers to go on with a web socket.

            One whose body has two lengths is refused: a proxy may see another end of it (RFC 9112, 6.3).
            """
            names = [name for name, _ in request.headers]
            if b"content-length" in names and b"transfer-encoding" in names:
                await self._send_error_response(400)
                await self.send(Closed())
                return
            if b"upgrade" in names:
                kept = [(name, value) for name, value in request.headers if name != b"upgrade"]
                method, target, version = request.method, request.target, request.http_version
                request = h11.Request(method=method, target=target, headers=kept, http_version=version)
            await super()._create_stream(request)

    config = Config()
    config.errorlog = config.accesslog = None
    config.include_server_header = False
    config.h11_max_incomplete_size = limits.head_bytes
    config.keep_alive_max_requests = _NEVER

    class Context(WorkerContext):
        def __init__(self, ending: trio.Event) -> None:
            super().__init__(None)
            self.terminated = _Flag(ending)

    make: Any = Http1  # its types are narrower than what it asks for

    def begin(connection: Connection) -> Any:
        return make(
            connection.app,
            config,
            Context(connection.ending),
            connection,
            connection.state,
            connection.is_encrypted,
            connection.client,
            connection.server,
            connection.send,
        )

    return begin
