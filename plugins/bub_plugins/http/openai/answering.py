"""The response to a request: whole, or as a stream of events that stays alive while nothing comes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

import trio
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from bub_plugins.http.openai.errors import ApiError
from bub_plugins.http.openai.outcome import FILTERED, Outcome
from bub_plugins.http.openai.sse import ALIVE
from bub_plugins.http.openai.turns import Tell

BEGIN_AFTER = 2.0
"""After how many seconds a stream begins on which nothing has come; until then a failure has a status of its own."""

ALIVE_EVERY = 10.0
"""How often, in seconds, a stream says that it is there while nothing comes."""

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})

_REFUSAL = "error: "
"""How an answer begins that may turn out to be a refusal of what the client asked."""


class Writer(Protocol):
    """Writes an answer in the words of one API."""

    def whole(self, outcome: Outcome) -> dict[str, Any]: ...

    def begin(self) -> str: ...

    def text(self, delta: str) -> str: ...

    def end(self, outcome: Outcome, rest: str) -> str: ...

    def fail(self, error: ApiError) -> str: ...


class Answering:
    """Answers with the result of `run`; if the client hangs up, that is cancelled."""

    def __init__(
        self, run: Callable[[Tell], Awaitable[Outcome]], writer: Writer, request_id: str, *, streams: bool
    ) -> None:
        self._run = run
        self._headers = {"cache-control": "no-store", "x-request-id": request_id}
        self._writer = writer
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with trio.open_nursery() as tasks:
            tasks.start_soon(_watch, receive, tasks.cancel_scope)
            if self._streams:
                await self._stream(scope, receive, send)
            else:
                await self._whole(scope, receive, send)
            tasks.cancel_scope.cancel()

    async def _whole(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = JSONResponse(self._writer.whole(await self._run(_drop)), headers=self._headers)
        except ApiError as error:
            response = error_response(error, self._headers)
        await response(scope, receive, send)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        told, came = trio.open_memory_channel[str | Outcome | ApiError](float("inf"))
        async with trio.open_nursery() as making:
            making.start_soon(self._make, told)
            shown = _Shown(send, self._writer, self._headers)
            while True:
                item: str | Outcome | ApiError = ""
                with trio.move_on_after(ALIVE_EVERY if shown.has_begun else BEGIN_AFTER):
                    item = await came.receive()
                while isinstance(item, str) and item and came.statistics().current_buffer_used:
                    following = came.receive_nowait()
                    if not isinstance(following, str):
                        await shown.text(item)
                        item = following
                        break
                    item += following
                if isinstance(item, ApiError) and not shown.has_begun:
                    await error_response(item, self._headers)(scope, receive, send)
                elif isinstance(item, str):
                    await (shown.text(item) if item else shown.stay_alive())
                    continue
                else:
                    await shown.end(item)
                return

    async def _make(self, told: trio.MemorySendChannel[str | Outcome | ApiError]) -> None:
        def tell(delta: str) -> None:
            if delta:
                told.send_nowait(delta)

        try:
            told.send_nowait(await self._run(tell))
        except ApiError as error:
            told.send_nowait(error)


class _Shown:
    """What of an answer a client has been sent."""

    def __init__(self, send: Send, writer: Writer, headers: Mapping[str, str]) -> None:
        self._headers = {"content-type": "text/event-stream; charset=utf-8", **headers}
        self._send = send
        self._writer = writer
        self._text = ""
        self._held = ""
        self.has_begun = False

    async def text(self, delta: str) -> None:
        """Send a piece of the answer; one that may be a refusal waits for the end."""
        if not self._text and (self._held + delta).startswith(_REFUSAL):
            self._held += delta
            return
        delta, self._held = self._held + delta, ""
        self._text += delta
        await self._write(self._begin() + self._writer.text(delta))

    async def stay_alive(self) -> None:
        """Begin, if nothing was sent yet, or say that the connection lives."""
        await self._write(self._begin() or ALIVE)

    async def end(self, said: Outcome | ApiError) -> None:
        """Send the end, with what of the text was not sent yet."""
        begun = self._begin()
        end = self._writer.fail(said) if isinstance(said, ApiError) else self._writer.end(said, self._rest(said))
        await self._write(begun + end, more=False)

    def _rest(self, outcome: Outcome) -> str:
        """What of the answer a client does not have yet.

        Of a text that was changed after people could read along, nobody can take back what was sent.
        """
        if outcome.text.startswith(self._text):
            return outcome.text[len(self._text) :]
        return f"\n\n{outcome.text}" if outcome.reason == FILTERED and outcome.text else ""

    def _begin(self) -> str:
        if self.has_begun:
            return ""
        self.has_begun = True
        return self._writer.begin()

    async def _write(self, data: str, *, more: bool = True) -> None:
        if data and not self._is_open:
            self._is_open = True
            headers = [(name.encode(), value.encode()) for name, value in self._headers.items()]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": data.encode(), "more_body": more})

    _is_open = False


def error_response(error: ApiError, more: Mapping[str, str] = _NO_HEADERS) -> JSONResponse:
    """Return an error as a response of its own, with `more` headers."""
    headers = {"cache-control": "no-store", **more}
    if error.retry_after is not None:
        headers["retry-after"] = str(max(1, round(error.retry_after)))
    if error.is_kept:
        headers["x-should-retry"] = "false"  # OpenAI's packages heed it
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    return JSONResponse(error.as_dict(), error.status, headers=headers)


async def _watch(receive: Receive, making: trio.CancelScope) -> None:
    """Cancel what is made once the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    making.cancel()


def _drop(delta: str) -> None:
    """Whoever wants the whole answer gets no piece."""
