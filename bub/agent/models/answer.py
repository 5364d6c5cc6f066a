"""An answer while it is read: a server's events, given to a dialect one by one as somebody asks for more."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Protocol

import trio

from bub.agent.models import faults
from bub.agent.models.draft import Draft
from bub.agent.models.endpoint import Endpoint
from bub.agent.models.faults import AttemptError
from bub.agent.models.sse import EventDecoder
from bub.streaming import StreamEvent, StreamState

if TYPE_CHECKING:  # imported where a model is asked: a turn that asks none, or one in this process, does without
    import httpx

_GRACE_FOR_USAGE = 2.0
_GRACE_FOR_END = 0.2


class Reader(Protocol):
    """How one API's words become an answer. Both raise ValueError for what is no such answer, and AttemptError."""

    def take(self, data: str) -> None:
        """Take the data of one event of a stream."""
        ...

    def take_whole(self, body: bytes) -> None:
        """Take an answer that came all at once, as servers send it that do not stream."""
        ...


class Answer:
    """The events of one answer. It is read as it is asked for: no task runs behind it, no scope stays open."""

    __slots__ = ("_body", "_data", "_decoder", "_done", "_draft", "_endpoint", "_reader", "_response")

    def __init__(self, endpoint: Endpoint, response: httpx.Response, draft: Draft, reader: Reader) -> None:
        self._endpoint = endpoint
        self._response = response
        # What is not compressed need not go through the layers that unpack it.
        is_packed = "content-encoding" in response.headers
        self._body: AsyncIterator[bytes] = response.aiter_bytes() if is_packed else response.aiter_raw()
        self._decoder = EventDecoder()
        self._data: deque[str] = deque()
        """What has come in and was not read yet."""
        self._draft = draft
        self._reader = reader
        self._done = False  # nothing more is read

    @property
    def state(self) -> StreamState:
        """What is known about the answer beside its events."""
        return self._draft.state

    def __aiter__(self) -> Answer:
        return self

    async def __anext__(self) -> StreamEvent:
        ready = self._draft.ready
        while not ready:
            if self._done:
                raise StopAsyncIteration
            try:
                if self._data:
                    self._take(self._data.popleft())
                else:
                    await self._read_on()
            except AttemptError as failed:
                self.state.error = failed.error
                await self.aclose()
                raise failed.take_error() from failed.__cause__
        return ready.popleft()

    async def aclose(self) -> None:
        """End the answer: closing its connection tells the server to stop."""
        self._done = True
        self._draft.ready.clear()
        self._data.clear()
        if not self._response.is_closed:
            await unwind(self._body)
            await self._response.aclose()

    async def await_first(self) -> None:
        """Read until the first event is there. Raises AttemptError."""
        while not self._draft.ready:
            if self._data:
                self._take(self._data.popleft())
            else:
                await self._read_on()

    def take_whole(self, body: bytes) -> None:
        """Take an answer that is no stream. Raises AttemptError."""
        try:
            self._reader.take_whole(body)
        except (ValueError, RecursionError) as error:
            raise self._no_answer() from error
        self._draft.end()
        self._done = True

    def _take(self, data: str) -> None:
        if data and not self._draft.ended:
            try:
                self._reader.take(data)
            except (ValueError, RecursionError) as error:
                raise self._no_answer() from error

    async def _read_on(self) -> None:
        draft = self._draft
        try:
            piece = await self._next_piece()
        except Exception as error:  # noqa: BLE001 (what is not the connection's failure is raised again)
            self._raise_failure(error)
            piece = None
        if piece is not None:
            self._data.extend(self._decoder.feed(piece))
        else:
            if not draft.ended:
                if draft.finish_reason is None:
                    raise AttemptError(faults.report_break_off(self._endpoint), again=True)
                draft.end()
            self._done = True
            await self._response.aclose()

    def _raise_failure(self, error: Exception) -> None:
        """Raise what a failure of the connection means, unless the answer was complete by then."""
        import httpx

        if isinstance(error, httpx.TimeoutException):
            raise AttemptError(faults.silent(self._endpoint)) from error
        if not isinstance(error, httpx.RequestError):
            raise error
        # Whoever has said how the answer ended has said it all, however the connection ended.
        if self._draft.finish_reason is None and not self._draft.ended:
            raise AttemptError(faults.report_break_off(self._endpoint), again=True) from error

    async def _next_piece(self) -> bytes | None:
        """The next piece of the body, None at its end. Once the answer is complete, the rest is waited for briefly.

        The rest is read at all so that the connection can be used again.
        """
        draft = self._draft
        if draft.finish_reason is None and not draft.ended:
            return await anext(self._body, None)
        with trio.move_on_after(_GRACE_FOR_END if draft.ended else _GRACE_FOR_USAGE):
            return await anext(self._body, None)
        return None

    def _no_answer(self) -> AttemptError:
        what = "sent something that is not a model's answer"
        return AttemptError(faults.not_a_model_server(self._endpoint, what), again=True)


async def unwind(reading: AsyncIterator[Any]) -> None:
    """End a reading that is not at its end.

    Closing the outermost of httpx's nested generators would leave the inner ones to the garbage collector, which
    trio warns about; a cancellation thrown into the innermost read unwinds them all, and closes the connection.
    """
    with trio.CancelScope() as scope:
        scope.cancel()
        while await anext(reading, None) is not None:
            pass
