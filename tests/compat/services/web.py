"""A fake of a service: HTTP and WebSockets on a port of this machine, and what it heard."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections import defaultdict
from typing import Any, ClassVar

from aiohttp import web

LONGEST_WAIT = 30.0


class NotHeardError(AssertionError):
    """A service waited in vain for what a plugin had to send."""


class Service:
    """One service. Subclasses list their routes, and say under which names the real one is reached."""

    hosts: ClassVar[tuple[str, ...]] = ()
    """Names that lead here, over TLS; without one the service is plain HTTP, and its `address` is put into settings."""

    def __init__(self) -> None:
        self.port = 0
        self.calls: list[str] = []
        self._heard: defaultdict[str, asyncio.Queue[Any]] = defaultdict(asyncio.Queue)
        self._sockets: set[web.WebSocketResponse] = set()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def routes(self) -> list[web.RouteDef]:
        raise NotImplementedError

    def hear(self, what: str, value: Any = None) -> None:
        """Keep what came in, for `heard`."""
        self._heard[what].put_nowait(value)

    async def heard(self, what: str, within: float = LONGEST_WAIT) -> Any:
        """Wait for the next `what`; return what came with it.

        Raises NotHeardError with what came instead.
        """
        try:
            return await asyncio.wait_for(self._heard[what].get(), within)
        except TimeoutError:
            came = ", ".join(self.calls[-20:]) or "nothing"
            raise NotHeardError(f"{type(self).__name__} never got {what}; it got {came}") from None

    async def open(self, context: ssl.SSLContext | None) -> web.AppRunner:
        """Serve on a free port until the runner is cleaned up."""
        app = web.Application(middlewares=[self._note], client_max_size=2**25)
        app.add_routes(self.routes())
        app.on_shutdown.append(self._hang_up)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context if self.hosts else None)
        await site.start()
        self.port = runner.addresses[0][1]
        return runner

    async def accept(self, request: web.Request) -> web.WebSocketResponse:
        """Accept a WebSocket; it is closed with the service."""
        connection = web.WebSocketResponse()
        await connection.prepare(request)
        self._sockets.add(connection)
        return connection

    @web.middleware
    async def _note(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.calls.append(f"{request.method} {request.path}")
        return await handler(request)

    async def _hang_up(self, app: web.Application) -> None:
        for connection in self._sockets:
            await connection.close()


async def fields_of(request: web.Request) -> dict[str, Any]:
    """The fields of a request, however they are written: in the address, as a form or as JSON."""
    fields: dict[str, Any] = dict(request.query)
    if request.content_type == "application/json":
        fields |= json.loads(await request.text() or "{}")
    elif request.method == "POST":
        fields |= dict(await request.post())
    return fields


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
