"""The answer to a request of a webhook: within the request if there is time, as a stream, or later."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
import trio
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from bub.channels import ChannelMessage
from bub.streaming import StreamEvent
from bub_plugins.http.asking import Asker, Askers
from bub_plugins.http.hooks.seen import shown_replies

_LAST_WORD = 1.0
"""How long, in seconds, a request that the end of the process cuts off may take to learn that its message is kept."""

_HEARTBEAT = 15.0
"""How often, in seconds, a stream says that it is there while nothing comes."""

_HEADERS = {"cache-control": "no-store"}
_AGAIN = {"idempotent-replayed": "true"}


def accepted(message: ChannelMessage) -> Response:
    """The message is kept, and will be answered later."""
    return JSONResponse({"message_id": message.message_id}, 202, headers=_HEADERS)


def answered(message_id: str, replies: Sequence[dict[str, str]]) -> Response:
    """The replies to a message."""
    return JSONResponse({"message_id": message_id, "replies": replies}, headers=_HEADERS)


def repeated(message_id: str, replies: Sequence[dict[str, str]]) -> Response:
    """The replies to a message that came before."""
    return JSONResponse({"message_id": message_id, "replies": replies}, headers={**_HEADERS, **_AGAIN})


def streamed(message_id: str, replies: Sequence[dict[str, str]]) -> Response:
    """The replies to a message that came before, as server-sent events."""
    said = [sse("accepted", {"message_id": message_id}), *(sse("reply", one) for one in replies), sse("end", {})]
    return Response(b"".join(said), headers={**_HEADERS, **_AGAIN}, media_type="text/event-stream")


class Waiting:
    """Answers with the replies if they come within some seconds, else with 202; with that at once if none can come."""

    def __init__(self, askers: Askers, message: ChannelMessage, seconds: float) -> None:
        self._askers = askers
        self._message = message
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._seconds <= 0 or not self._askers.has_room or scope["state"]["ending"].is_set():
            await self._askers.keep(self._message)
            await accepted(self._message)(scope, receive, send)
            return
        async with self._askers.asking(self._message) as asker:
            if not asker.is_late and not await self._wait(asker, scope, receive, send):
                return
            if not asker.is_answered:
                await accepted(self._message)(scope, receive, send)
                return
            await answered(self._message.message_id, shown_replies(asker.replies))(scope, receive, send)
            asker.is_told = True

    async def _wait(self, asker: Asker, scope: Scope, receive: Receive, send: Send) -> bool:
        """Wait for the end of the turn, as long as there is time for it; False if nobody is there any more."""
        try:
            with trio.move_on_after(self._seconds):
                async with trio.open_nursery() as tasks:
                    gone = Gone(receive, tasks.cancel_scope)
                    tasks.start_soon(gone.watch)
                    await asker.answered()
                    tasks.cancel_scope.cancel()
        except BaseException:  # the process ends: the message is on the disk, and is answered after the next start
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _LAST_WORD), suppress(Exception):
                await accepted(self._message)(scope, receive, send)
            raise
        return not gone.is_gone


class Gone:
    """Watches whether who asked is still there, and cancels what is made for them if not."""

    def __init__(self, receive: Receive, making: trio.CancelScope) -> None:
        self._receive = receive
        self._making = making
        self.is_gone = False

    async def watch(self) -> None:
        """Wait until they have gone."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.is_gone = True
        self._making.cancel()


class Streaming:
    """Answers with server-sent events: `text` as it is made, `reply` for each reply, then `end`.

    If none can come, since the message was answered before, it answers with 202.
    """

    def __init__(self, askers: Askers, message: ChannelMessage) -> None:
        self._askers = askers
        self._message = message

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._askers.asking(self._message) as asker:
            if asker.is_late:  # a turn that is over tells nothing, not even its end
                await accepted(self._message)(scope, receive, send)
                return
            headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await _write(send, sse("accepted", {"message_id": self._message.message_id}))
            async with trio.open_nursery() as tasks:
                gone = Gone(receive, tasks.cancel_scope)
                tasks.start_soon(gone.watch)
                await self._tell(asker, send)
                tasks.cancel_scope.cancel()
            if not gone.is_gone:
                replies = b"".join(sse("reply", reply) for reply in shown_replies(asker.replies))
                await send({"type": "http.response.body", "body": replies + sse("end", {})})
                asker.is_told = True

    async def _tell(self, asker: Asker, send: Send) -> None:
        while not asker.is_answered:
            came: list[StreamEvent] | None = None
            with trio.move_on_after(_HEARTBEAT):
                came = await asker.events()
            if came is None:
                await _write(send, b": here\n\n")
            elif text := "".join(str(one.data.get("delta", "")) for one in came if one.kind == "text"):
                await _write(send, sse("text", {"delta": text}))


def sse(event: str, data: Any) -> bytes:
    """Return one server-sent event."""
    return b"event: " + event.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"


async def _write(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})
