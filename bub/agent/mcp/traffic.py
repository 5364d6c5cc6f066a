"""What goes to a server and comes from it, message by message: bounded, and without what nobody is to compile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse

from bub.agent.mcp.errors import ServerError
from bub.agent.mcp.offered import find_flaw
from bub.base.tracing.activity import trace_headers

MOST_UNASKED = 10_000
"""How many messages may come that answer nothing, before one comes that does."""

Message = SessionMessage | Exception


class Traffic:
    """Counts what comes from one server; `heard` is how many messages there were."""

    def __init__(self) -> None:
        self.heard = 0
        self.session = ""
        """What an address calls the session."""
        self.refusal = ""
        """The status with which an address has refused what was asked."""
        self.left_out: list[str] = []
        """What is wrong with tools that were taken out of a list, since the SDK would refuse the whole list."""
        self._unasked = 0
        self._waiting: set[Any] = set()

    def note_sent(self, message: SessionMessage) -> None:
        """Note what is asked."""
        if isinstance(message.message, JSONRPCRequest):
            self._waiting.add(message.message.id)

    def take(self, item: Message | None) -> None:
        """Judge what has come; None is what was no message. Raises `ServerError` for a flood."""
        self.heard += 1
        self._unasked += 1
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id in self._waiting:
            self._waiting.discard(message.id)
            self._unasked = 0
        if self._unasked > MOST_UNASKED:
            raise ServerError(f"it has sent {MOST_UNASKED:,} messages that nobody asked for")
        if isinstance(message, JSONRPCResponse):
            self._sift_tools(message.result)

    def _sift_tools(self, result: Any) -> None:
        """Take out what is no tool, and what the others say of their results: the SDK would compile the patterns."""
        tools = result.get("tools") if isinstance(result, dict) else None
        if not isinstance(tools, list):
            return
        kept = []
        for tool in tools:
            flaw = find_flaw(tool)
            if flaw:
                self.left_out.append(flaw)
            else:
                kept.append({name: value for name, value in tool.items() if name != "outputSchema"})
        result["tools"] = kept


def trace_meta() -> Any:
    """The trace that a request is a part of, as its `_meta` says it (SEP-414); None if nobody collects traces."""
    return trace_headers() or None


class Reading:
    """The messages of a server, as the SDK reads them. `over` is called when there are no more, with the reason."""

    def __init__(self, receive: Callable[[], Awaitable[Message | None]], traffic: Traffic, over: Callable[[str], None]):
        self._receive = receive
        self._traffic = traffic
        self._over = over

    async def receive(self) -> Message:
        """Return the next message. Raises `anyio.EndOfStream` at the end."""
        try:
            item = await self._receive()
            self._traffic.take(item)
            while item is None:
                item = await self._receive()
                self._traffic.take(item)
        except anyio.EndOfStream:
            self._over("")
            raise
        except ServerError as error:
            self._over(str(error))
            raise anyio.EndOfStream from None
        return item

    def __aiter__(self) -> Reading:
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Reading:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave it as it is: whoever has opened the way to the server closes it."""

    async def aclose(self) -> None:
        """Leave it as it is."""


class Writing:
    """What the SDK says to a server."""

    def __init__(self, send: Callable[[SessionMessage], Awaitable[None]], traffic: Traffic):
        self._send = send
        self._traffic = traffic

    async def send(self, item: SessionMessage, /) -> None:
        """Say something. Raises `anyio.BrokenResourceError` if the server does not listen any more."""
        self._traffic.note_sent(item)
        await self._send(item)

    async def __aenter__(self) -> Writing:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave it as it is."""

    async def aclose(self) -> None:
        """Leave it as it is."""
