"""A small HTTP server for whoever watches a runtime: `/healthz` as JSON, `/metrics` in the format of Prometheus."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import h11
import trio

from bub.base.counts import Counts
from bub.base.failures import explain_os_error
from bub.errors import BubError, UsageError
from bub.gateway.metrics import Metrics
from bub.log import log_exception, log_info

_PATIENCE = 10.0
"""How long, in seconds, one request may take from its first byte to the last of its answer."""

_MOST_CONNECTIONS = 32
"""How many may be open at once; one more is closed at once."""

_MOST_BYTES = 16_384
_TEXT = "text/plain; charset=utf-8"

Health: TypeAlias = Callable[[], tuple[bool, Mapping[str, Any]]]
"""Says whether all is well, and what there is to say about it in types of JSON."""


class ListenAddress(NamedTuple):
    """Where to listen: an address of this machine that no other reaches, and a port; 0 for any that is free."""

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> ListenAddress:
        """Return the address that `127.0.0.1:9464`, `localhost:9464` or `[::1]:9464` stands for.

        Raises `UsageError` for anything else, an address that other machines reach among them: what is served says
        much about the runtime, and nobody is asked for a password.
        """
        host, _, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not (port.isascii() and port.isdigit()) or len(port) > 5 or int(port) > 65_535:
            raise UsageError(f"`{text}` is not an address to listen on", help="write it as 127.0.0.1:9464")
        if host == "localhost":
            return cls("127.0.0.1", int(port))
        if not _is_loopback(host):
            raise UsageError(
                f"`{text}` is not an address of this machine alone, and nobody is asked for a password",
                help=f"listen at 127.0.0.1:{port}, and put a proxy in front that other machines may ask",
            )
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Response(NamedTuple):
    status: int
    media_type: str
    body: bytes

    @classmethod
    def text(cls, status: int, text: str) -> _Response:
        return cls(status, _TEXT, f"{text}\n".encode())


class Monitor:
    """Serves what `counts` and `health` say, to this machine alone."""

    def __init__(self, counts: Counts, health: Health) -> None:
        self._metrics = Metrics(counts)
        self._health = health
        self._connections = 0

    async def serve(
        self, address: ListenAddress, *, task_status: trio.TaskStatus[ListenAddress] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Answer until cancelled; tells `task_status` where, once others can connect.

        Raises `BubError` if the port cannot be had.
        """
        try:
            listeners = await trio.open_tcp_listeners(address.port, host=address.host)
        except OSError as error:
            raise BubError(
                f"cannot listen at {address}: {explain_os_error(error)}",
                help="perhaps another gateway has the port; `--listen` chooses another",
            ) from error
        bound = ListenAddress(address.host, listeners[0].socket.getsockname()[1])
        log_info("monitor.listening", address=bound)
        task_status.started(bound)
        await trio.serve_listeners(self._serve_one, listeners)

    async def _serve_one(self, stream: trio.SocketStream) -> None:
        """One connection, one request; whatever goes wrong with it concerns nobody else."""
        if self._connections >= _MOST_CONNECTIONS:
            return
        self._connections += 1
        try:
            with trio.move_on_after(_PATIENCE):
                await self._answer(stream, h11.Connection(h11.SERVER, _MOST_BYTES))
        except (trio.BrokenResourceError, trio.ClosedResourceError, h11.LocalProtocolError):
            pass  # whoever asked has gone
        except Exception as error:  # noqa: BLE001 (it must not end the runtime that is watched)
            log_exception("monitor.failed", error)
        finally:
            self._connections -= 1

    async def _answer(self, stream: trio.SocketStream, connection: h11.Connection) -> None:
        is_head = False
        try:
            request = await _receive_request(stream, connection)
            if request is None:
                return
            is_head = request.method == b"HEAD"
            page = self._page(request)
        except h11.RemoteProtocolError as error:
            page = _Response.text(error.error_status_hint, str(error))
        headers = [
            ("content-type", page.media_type),
            ("content-length", str(len(page.body))),
            ("cache-control", "no-store"),
            ("connection", "close"),
        ]
        parts: list[h11.Event] = [h11.Response(status_code=page.status, headers=headers)]
        if not is_head:
            parts.append(h11.Data(data=page.body))
        await stream.send_all(b"".join(connection.send(part) or b"" for part in (*parts, h11.EndOfMessage())))
        await stream.send_eof()

    def _page(self, request: h11.Request) -> _Response:
        if request.method not in (b"GET", b"HEAD"):
            return _Response.text(405, "only GET and HEAD")
        match request.target.partition(b"?")[0]:
            case b"/healthz":
                is_well, said = self._health()
                return _Response(200 if is_well else 503, "application/json", json.dumps(said).encode() + b"\n")
            case b"/metrics":
                accepted = b",".join(value for name, value in request.headers if name == b"accept")
                body, media_type = self._metrics.exposition(accepted.decode("latin-1"))
                return _Response(200, media_type, body)
        return _Response.text(404, "there are /healthz and /metrics")


async def _receive_request(stream: trio.SocketStream, connection: h11.Connection) -> h11.Request | None:
    """Return the request of a connection; None if it was closed without one."""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await stream.receive_some())
        elif isinstance(event, h11.Request):
            return event
        else:
            return None
