"""A peer that speaks JSON-RPC 2.0 over two streams of bytes, framed as the Language Server Protocol says."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

import trio

MOST_BYTES = 64 << 20
"""The longest message that is read; a longer one is skipped, and answered with an error if it may be a request."""

_MOST_HEADER = 4096
_CHUNK = 1 << 16

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603


class JsonRpcError(Exception):
    """What a handler raises to answer a request with an error: `code` as JSON-RPC says, and one sentence."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class BrokenFrameError(Exception):
    """The other side sent what is no frame, so nobody knows where the next message begins."""


class Incoming(Protocol):
    """Bytes from the other side; empty at their end."""

    async def receive_some(self, max_bytes: int, /) -> bytes: ...


class Outgoing(Protocol):
    """Bytes to the other side."""

    async def send_all(self, data: bytes, /) -> None: ...


Handler: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Any]]
"""Answers one request, or heeds one notification; its parameters are an object, empty if there are none."""


class Peer:
    """One side of a conversation: calls the handler of each message in their order, and sends what it answers.

    `fail` is called with what a handler raised that is no `JsonRpcError`; the other side reads only that it failed.
    """

    def __init__(
        self,
        incoming: Incoming,
        outgoing: Outgoing,
        handlers: Mapping[str, Handler],
        *,
        fail: Callable[[str, Exception], None],
    ) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._handlers = handlers
        self._fail = fail
        self._unread = bytearray()
        self._one_writes = trio.Lock()

    async def serve(self) -> None:
        """Read messages until the other side ends; raises `BrokenFrameError` if what it sends has no frames."""
        while (length := await self._read_header()) is not None:
            if length > MOST_BYTES:
                await self._skip(length)
                await self._answer_error(None, INVALID_REQUEST, f"a message of {length} bytes is too long")
                continue
            body = await self._read_exactly(length)
            if body is None:
                return
            await self._heed(body)

    async def notify(self, method: str, params: Any) -> None:
        """Tell the other side something that it does not answer."""
        await self._send({"jsonrpc": "2.0", "method": method, "params": params})

    async def _heed(self, body: bytes) -> None:
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            await self._answer_error(None, PARSE_ERROR, "this is not JSON")
            return
        if not isinstance(message, dict):
            await self._answer_error(None, INVALID_REQUEST, "a message is an object")
            return
        method, number = message.get("method"), message.get("id")
        if not isinstance(method, str):
            if "result" not in message and "error" not in message:  # else it answers what nobody asked
                await self._answer_error(number, INVALID_REQUEST, "a message has a method")
            return
        if "id" not in message:
            await self._call(method, message.get("params"), None)
        else:
            await self._call(method, message.get("params"), number, answer=True)

    async def _call(self, method: str, params: Any, number: Any, *, answer: bool = False) -> None:
        try:
            result = await self._find(method, answer)(params if isinstance(params, dict) else {})
        except JsonRpcError as error:
            if answer:
                await self._answer_error(number, error.code, str(error))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            # Whatever the other side sent in a shape that no client sends; a fault of ours shows in the log.
            self._fail(method, error)
            if answer:
                await self._answer_error(number, INVALID_PARAMS, f"`{method}` cannot read its parameters")
        except Exception as error:  # noqa: BLE001 (one request that fails must not end the conversation)
            self._fail(method, error)
            if answer:
                await self._answer_error(number, INTERNAL_ERROR, f"`{method}` failed")
        else:
            if answer:
                await self._send({"jsonrpc": "2.0", "id": number, "result": result})

    def _find(self, method: str, answer: bool) -> Handler:
        handler = self._handlers.get(method)
        if handler is not None:
            return handler
        if answer:
            raise JsonRpcError(METHOD_NOT_FOUND, f"there is no method `{method}`")
        return _ignore

    async def _answer_error(self, number: Any, code: int, message: str) -> None:
        await self._send({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}})

    async def _send(self, message: Mapping[str, Any]) -> None:
        body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", errors="replace")
        async with self._one_writes:
            await self._outgoing.send_all(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    # Frames

    async def _read_header(self) -> int | None:
        """Return how long the next message is; None at the end, also if that comes in the middle of a header."""
        while (end := self._unread.find(b"\r\n\r\n")) < 0:
            if len(self._unread) > _MOST_HEADER:
                raise BrokenFrameError("a header is too long")
            if not await self._read_more():
                return None
        if end > _MOST_HEADER:
            raise BrokenFrameError("a header is too long")
        header = bytes(self._unread[:end])
        del self._unread[: end + 4]
        return _length_in(header)

    async def _read_exactly(self, length: int) -> bytes | None:
        while len(self._unread) < length:
            if not await self._read_more():
                return None
        body = bytes(self._unread[:length])
        del self._unread[:length]
        return body

    async def _skip(self, length: int) -> None:
        while length > len(self._unread):
            length -= len(self._unread)
            self._unread.clear()
            if not await self._read_more():
                return
        del self._unread[:length]

    async def _read_more(self) -> bool:
        more = await self._incoming.receive_some(_CHUNK)
        self._unread += more
        return bool(more)


async def _ignore(params: Mapping[str, Any]) -> None:
    del params


def _length_in(header: bytes) -> int:
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and re.fullmatch(rb"\s*[0-9]{1,18}\s*", value):
            return int(value)
    raise BrokenFrameError("a header without `Content-Length`")
