"""A small HTTP server: one request a connection, and a bound for whatever a stranger can make large, slow or many."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl

import h11
import msgspec
import trio

from bub.base.failures import explain_os_error
from bub.errors import BubError, UsageError
from bub.log import log_exception, log_info

_MOST_HEADER_BYTES = 16_384
_CHUNK = 8_192
"""How much is read at once, so that a head is never much larger than it may be."""

_TEXT = "text/plain; charset=utf-8"
_JSON = "application/json"
_NOTHING: Mapping[str, str] = MappingProxyType({})
_LINGER = 1.0
"""How long, in seconds, what nobody wants to read is thrown away, so that the answer reaches who is still sending."""


class ListenAddress(NamedTuple):
    """The place to listen at: an address, and a port; 0 for any that is free."""

    host: str
    port: int

    @classmethod
    def of(cls, text: str, *, beyond: bool = False) -> ListenAddress:
        """Return the address that `127.0.0.1:9464`, `localhost:9464` or `[::1]:9464` stands for.

        Raises `UsageError` for anything else; unless `beyond` is said, also for an address that other machines reach.
        """
        host, _, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not (port.isascii() and port.isdigit()) or len(port) > 5 or int(port) > 65_535:
            raise UsageError(f"`{text}` is not an address to listen on", help="write it as 127.0.0.1:9464")
        if host == "localhost":
            return cls("127.0.0.1", int(port))
        address = _ip_address(host)
        if beyond and address is None:
            raise UsageError(f"`{host}` is not an IP address to listen on", help="write it as 127.0.0.1:9464")
        if not beyond and (address is None or not address.is_loopback):
            raise UsageError(
                f"other machines may reach `{text}`, and Bub asks them for no password",
                help=f"listen at 127.0.0.1:{port}, and put a proxy in front, which other machines may reach",
            )
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Response:
    """What is answered to a request: a status, a body and its type, and `headers` beside those that each has."""

    status: int
    body: bytes = b""
    media_type: str = _TEXT
    headers: Mapping[str, str] = field(default_factory=lambda: _NOTHING)

    @classmethod
    def text(cls, status: int, text: str, **headers: str) -> Response:
        """A line of text. `retry_after="5"` is the header `retry-after: 5`."""
        return cls(status, f"{text}\n".encode(), _TEXT, {name.replace("_", "-"): one for name, one in headers.items()})

    @classmethod
    def json(cls, status: int, value: Any) -> Response:
        """A value as JSON."""
        return cls(status, msgspec.json.encode(value) + b"\n", _JSON)


class HttpError(Exception):
    """A request that is answered by a status such as 400, and a line of text that says why."""

    def __init__(self, status: int, text: str, **headers: str) -> None:
        super().__init__(f"{status}: {text}")
        self.response = Response.text(status, text, **headers)


@dataclass(frozen=True, slots=True)
class Request:
    """A request: what it asks for, its headers by their names in small letters, and its body as it came."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    headers: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    body: bytes = b""

    def json(self) -> Any:
        """The body, read as JSON. Raises `HttpError` (400) for one that is none."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, RecursionError, ValueError):
            raise HttpError(400, "the body is not JSON") from None

    def pick(self, *names: str) -> list[str]:
        """Return the strings of these names in the JSON object that the body is; `message.text` is one inside another.

        A whole number is taken as a text. Raises `HttpError` (400), which says what is missing.
        """
        whole = self.json()
        return [_text_of(whole, name) for name in names]


def _text_of(whole: Any, name: str) -> str:
    found = whole
    for key in name.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    if isinstance(found, bool) or not isinstance(found, str | int):
        raise HttpError(400, f"`{name}` is missing, or is not a text")
    return str(found)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server puts up with.

    `connections` may be open at once; one more is closed. `patience` is how long, in seconds, a request may take from
    its first byte to its last, and an answer.
    """

    connections: int
    patience: float


class Exchange:
    """One request and its answer. `request` has no body until `read` has fetched it."""

    def __init__(self, stream: trio.SocketStream, limits: Limits) -> None:
        self.request = Request("", "")
        self._stream = stream
        self._connection = h11.Connection(h11.SERVER, _MOST_HEADER_BYTES)
        self._patience = limits.patience
        self._deadline = trio.current_time() + limits.patience

    async def begin(self) -> bool:
        """Receive the head of the request; False if none came in time."""
        head = None
        with trio.move_on_at(self._deadline):
            head = await self._next_event()
        if not isinstance(head, h11.Request):
            return False
        path, _, query = head.target.decode("latin-1").partition("?")
        headers: dict[str, str] = {}
        for name, value in head.headers:
            key, text = name.decode("latin-1"), value.decode("latin-1")
            headers[key] = f"{headers[key]}, {text}" if key in headers else text
        asked = dict(parse_qsl(query, keep_blank_values=True))
        self.request = Request(head.method.decode("latin-1"), path, asked, headers)
        return True

    async def read(self, most: int) -> Request:
        """Return the request with its body.

        Raises `HttpError`: 413 for a body of more than `most` bytes (little more is read), 408 for one that
        takes too long.
        """
        length = self.request.headers.get("content-length", "0")
        if len(length) > 15 or int(length) > most:
            raise _too_large(most)
        body = bytearray()
        with trio.move_on_at(self._deadline):
            if self._connection.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=100, headers=[]))
            while isinstance(event := await self._next_event(), h11.Data):
                body += event.data
                if len(body) > most:
                    raise _too_large(most)
            return replace(self.request, body=bytes(body))
        raise HttpError(408, f"the body did not come within {self._patience:g} seconds")

    async def hung_up(self) -> None:
        """Wait until the other side hangs up; what it still says is thrown away."""
        with suppress(trio.BrokenResourceError):
            while await self._stream.receive_some():
                pass

    async def respond(self, response: Response) -> None:
        """Answer, once. Raises `trio.BrokenResourceError` if the other side has gone, or does not read."""
        headers = [("cache-control", "no-store"), ("connection", "close"), *response.headers.items()]
        if response.status != 204:
            headers += [("content-type", response.media_type), ("content-length", str(len(response.body)))]
        parts: list[h11.Event] = [h11.Response(status_code=response.status, headers=headers)]
        if response.body and self.request.method != "HEAD":
            parts.append(h11.Data(data=response.body))
        with trio.move_on_after(self._patience):
            await self._send(*parts, h11.EndOfMessage())
            await self._stream.send_eof()
            return
        raise trio.BrokenResourceError("the client did not read the answer in time")

    async def end(self) -> None:
        """Throw away for a moment what was not read, so that the answer reaches who is still sending."""
        if self._connection.their_state is not h11.DONE:
            with trio.move_on_after(_LINGER):
                await self.hung_up()

    async def _next_event(self) -> Any:
        while (event := self._connection.next_event()) is h11.NEED_DATA:
            self._connection.receive_data(await self._stream.receive_some(_CHUNK))
        return event

    async def _send(self, *parts: h11.Event) -> None:
        await self._stream.send_all(b"".join(self._connection.send(part) or b"" for part in parts))


def _too_large(most: int) -> HttpError:
    return HttpError(413, f"the body has more than {most:,} bytes")


Handle: TypeAlias = Callable[[Exchange], Awaitable[None]]
"""Answers one request."""


async def listen_at(
    address: ListenAddress,
    name: str,
    help: str,  # noqa: A002 (the reader's word)
) -> tuple[ListenAddress, list[trio.SocketListener]]:
    """Listen for a server of this name; return the address with the port that it got, and what accepts.

    Raises `BubError`, with this `help`, if that cannot be.
    """
    try:
        listeners = await trio.open_tcp_listeners(address.port, host=address.host)
    except OSError as error:
        raise BubError(f"cannot listen at {address}: {explain_os_error(error)}", help=help) from error
    bound = ListenAddress(address.host, listeners[0].socket.getsockname()[1])
    log_info(f"{name}.listening", address=bound)
    return bound, listeners


class HttpServer:
    """Has each request answered by `handle`; what fails there is logged as `NAME.failed`, and concerns no other."""

    def __init__(self, name: str, handle: Handle, limits: Limits) -> None:
        self._name = name
        self._handle = handle
        self._limits = limits
        self._connections = 0
        self._accepting = trio.CancelScope()

    async def serve(
        self,
        address: ListenAddress,
        *,
        help: str,  # noqa: A002 (the reader's word)
        task_status: trio.TaskStatus[ListenAddress] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Answer until cancelled, or closed and done with what is under way.

        Tells `task_status` where, once others can connect. Raises `BubError`, with this `help`, if it cannot listen.
        """
        bound, listeners = await listen_at(address, self._name, help)
        task_status.started(bound)
        async with trio.open_nursery() as connections:
            with self._accepting:
                await trio.serve_listeners(self._serve_one, listeners, handler_nursery=connections)

    def close(self) -> None:
        """Take no more requests; those under way are answered."""
        self._accepting.cancel()

    async def _serve_one(self, stream: trio.SocketStream) -> None:
        if self._connections >= self._limits.connections:
            return
        self._connections += 1
        exchange = Exchange(stream, self._limits)
        try:
            await self._answer(exchange)
            await exchange.end()
        except (trio.BrokenResourceError, trio.ClosedResourceError, h11.LocalProtocolError):
            pass  # whoever asked has gone
        except Exception as error:  # noqa: BLE001 (it must not end the others)
            log_exception(f"{self._name}.failed", error)
        finally:
            self._connections -= 1

    async def _answer(self, exchange: Exchange) -> None:
        try:
            if await exchange.begin():
                await self._handle(exchange)
        except h11.RemoteProtocolError as error:
            await exchange.respond(Response.text(error.error_status_hint, str(error)))
        except HttpError as error:
            await exchange.respond(error.response)
