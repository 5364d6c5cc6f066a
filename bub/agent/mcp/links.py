"""The ways to a server: the pipes of a program, or an address."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import httpx2
import trio
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from bub.agent.mcp.errors import ServerError
from bub.agent.mcp.program import LONGEST_LINE, Program
from bub.agent.mcp.traffic import Reading, Traffic, Writing
from bub.base.tracing.activity import trace_headers
from bub.plugins.servers import ServerSpec

Streams = tuple[Reading, Writing]

_TOO_LONG = f"the answer has more than {LONGEST_LINE // 2**20} MB"
_PATIENCE, _LONGEST_SILENCE = 30.0, 300.0
"""How long, in seconds, an address may take to answer at all, and how long it may be silent between two events."""


@asynccontextmanager
async def talk_to(
    program: Program, traffic: Traffic, over: Callable[[str], None]
) -> AsyncIterator[tuple[Reading, Writing]]:
    """The streams that lead to a program, as the SDK wants them; whoever has started it ends it."""

    async def receive() -> SessionMessage | None:
        line = await program.read_line()
        if line is None:
            raise anyio.EndOfStream
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            return None  # programs print all kinds of things

    async def send(item: SessionMessage) -> None:
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            await program.write_line(line.encode())
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            over("")
            raise anyio.BrokenResourceError from None

    yield Reading(receive, traffic, over), Writing(send, traffic)


@asynccontextmanager
async def talk_to_address(spec: ServerSpec, traffic: Traffic, over: Callable[[str], None]) -> AsyncIterator[Streams]:
    """The streams that lead to an address, over Streamable HTTP; a redirect to another origin is not followed."""
    timeout = httpx2.Timeout(_PATIENCE, read=_LONGEST_SILENCE)
    async with (
        httpx2.AsyncClient(headers=dict(spec.headers), timeout=timeout, transport=_Bounded(traffic)) as client,
        streamable_http_client(spec.url, http_client=client) as (reading, writing),
    ):
        yield Reading(reading.receive, traffic, over), Writing(writing.send, traffic)


class _Bounded(httpx2.AsyncHTTPTransport):
    """Reads no answer that is longer than a message may be; events are bounded one by one, by the SDK."""

    def __init__(self, traffic: Traffic) -> None:
        super().__init__()
        self._traffic = traffic

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers.update(trace_headers())
        response = await super().handle_async_request(request)
        self._traffic.session = response.headers.get("mcp-session-id", self._traffic.session)
        if response.status_code in (401, 403):
            self._traffic.refusal = f"{response.status_code} {response.reason_phrase}".strip()
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            if int(response.headers.get("content-length", "0")) > LONGEST_LINE:
                await response.stream.aclose()
                raise ServerError(_TOO_LONG)
            response.stream = _BoundedStream(response.stream)
        return response


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for chunk in self._stream:
                size += len(chunk)
                if size > LONGEST_LINE:
                    await self._stream.aclose()  # the next read fails: generators that are left half-way stay open
                else:
                    yield chunk
        except httpx2.TransportError:
            if size <= LONGEST_LINE:
                raise
        if size > LONGEST_LINE:
            raise ServerError(_TOO_LONG)

    async def aclose(self) -> None:
        await self._stream.aclose()
