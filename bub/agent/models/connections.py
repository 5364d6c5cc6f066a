"""The connections that requests go over: each request has one to itself, kept for the next once it is over.

httpx's own pool gives one idle connection to all requests that begin at the same moment, and lets all but one of them
wait in line until it says that it is taken; and it looks through every connection whenever a request begins or ends. A
thousand sessions that begin to stream at once wait seconds for that, so here every request has a pool of its own.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

KEPT = 32
"""How many connections wait for another request."""

KEPT_SECONDS = 30.0
"""How long one of them waits."""


def open_connections(trust: ssl.SSLContext) -> httpx.AsyncBaseTransport:
    """Return the transport of requests that go through no proxy; `trust` verifies the servers."""
    import httpx

    limits = httpx.Limits(max_connections=1, keepalive_expiry=KEPT_SECONDS)

    class Lent(httpx.AsyncByteStream):
        """The body of an answer; once it is closed, another request may have its connection.

        It names that no more then: a response of httpx and its stream name each other, and so what this named would
        stay, until Python looks for garbage.
        """

        def __init__(self, body: httpx.AsyncByteStream, server: str, one: httpx.AsyncHTTPTransport) -> None:
            self._body = body
            self._server = server
            self._one: httpx.AsyncHTTPTransport | None = one

        def __aiter__(self) -> AsyncIterator[bytes]:
            return self._body.__aiter__()

        async def aclose(self) -> None:
            if self._one is None:
                return
            body, one = self._body, self._one
            self._body, self._one = httpx.ByteStream(b""), None
            try:
                await body.aclose()
            except BaseException:  # nobody knows what it would say next
                await one.aclose()
                raise
            await connections.take_back(self._server, one)

    class Connections(httpx.AsyncBaseTransport):
        """Those that are not in use, the latest last: the server they lead to, and since when they wait."""

        def __init__(self) -> None:
            self._kept: list[tuple[str, float, httpx.AsyncHTTPTransport]] = []
            self._is_closed = False

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            server = f"{request.url.scheme}://{request.url.netloc.decode('ascii')}"
            one = self._lend(server)
            try:
                response = await one.handle_async_request(request)
            except BaseException:  # also a cancellation: an answer may still be on its way
                await one.aclose()
                raise
            assert isinstance(response.stream, httpx.AsyncByteStream)
            response.stream = Lent(response.stream, server, one)
            return response

        async def take_back(self, server: str, one: httpx.AsyncHTTPTransport) -> None:
            now = time.monotonic()
            self._kept.append((server, now, one))
            while self._kept and (len(self._kept) > KEPT or self._kept[0][1] < now - KEPT_SECONDS or self._is_closed):
                await self._kept.pop(0)[2].aclose()

        async def aclose(self) -> None:
            self._is_closed = True
            while self._kept:
                await self._kept.pop()[2].aclose()

        def _lend(self, server: str) -> httpx.AsyncHTTPTransport:
            for place in range(len(self._kept) - 1, -1, -1):
                if self._kept[place][0] == server:
                    return self._kept.pop(place)[2]
            return httpx.AsyncHTTPTransport(verify=trust, limits=limits)

    connections = Connections()
    return connections
