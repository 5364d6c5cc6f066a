"""Asking a model: one request, retried until the answer begins, then the answer as a stream of events."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import trio

from bub.builtin.models import faults
from bub.builtin.models.client import CONNECT_SECONDS
from bub.builtin.models.endpoint import Endpoint
from bub.builtin.models.faults import AttemptError
from bub.builtin.models.wire import Completion, Joiner, Message, plain_text, read_completion, write_body
from bub.streaming import AsyncStreamEvents, StreamEvent, StreamState

if TYPE_CHECKING:  # imported where a model is asked: a turn that asks none, or one in this process, does without
    import httpx
    import tenacity
    from httpx_sse import ServerSentEvent

LONGEST_PAUSE = 30.0
"""Seconds that a `Retry-After` may ask for; a server that wants more is not asked again in this turn."""

_LONGEST_ERROR = 64 * 1024
_LONGEST_COMPLETION = 16 * 1024 * 1024
_GRACE_FOR_USAGE = 2.0
_GRACE_FOR_END = 0.2


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a model is asked: the messages, and what this request wants other than its endpoint says."""

    messages: Sequence[Mapping[str, Any]]
    max_tokens: int | None = None
    temperature: float | None = None

    @classmethod
    def of_prompt(cls, prompt: str | Sequence[Mapping[str, Any]], system: str | None = None) -> ChatRequest:
        """A request of one prompt (text, or a list of content parts), under a system prompt if there is one."""
        asked: dict[str, Any] = {"role": "user", "content": prompt}
        return cls([{"role": "system", "content": system}, asked] if system else [asked])


async def stream_chat(client: httpx.AsyncClient, endpoint: Endpoint, request: ChatRequest) -> AsyncStreamEvents:
    """The model's answer, once it has begun: `text` and `reasoning` events, then `usage` if counted, then `final`.

    `final` carries the `finish_reason`. Until the answer has begun, what may pass is tried again as often as the
    endpoint allows; afterwards nothing is. Close the stream to leave early: its connection ends at once, and with it
    the server's work. Every failure is one `ModelError`, raised here or while iterating; `state.error` keeps it.
    """
    import tenacity

    call = _Call(client, endpoint, _body(endpoint, request))
    trying = tenacity.AsyncRetrying(
        sleep=trio.sleep,
        stop=tenacity.stop_after_attempt(endpoint.retries + 1),
        wait=_pause,
        retry=tenacity.retry_if_exception(_may_pass),
        reraise=True,
    )
    try:
        answer: _Answer = await trying(call.attempt)
    except AttemptError as failed:
        raise failed.error from failed.__cause__
    return AsyncStreamEvents(answer, answer.state)


def _body(endpoint: Endpoint, request: ChatRequest) -> bytes:
    body: dict[str, Any] = {"model": endpoint.model, "messages": list(request.messages), "stream": True}
    if endpoint.asks_for_usage:
        body["stream_options"] = {"include_usage": True}
    limit = endpoint.max_tokens if request.max_tokens is None else request.max_tokens
    if limit is not None:
        body[endpoint.limit_field] = limit
    temperature = endpoint.temperature if request.temperature is None else request.temperature
    if temperature is not None:
        body["temperature"] = temperature
    return write_body(body)


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, AttemptError) and error.again and (error.retry_after or 0) <= LONGEST_PAUSE


def _pause(state: tenacity.RetryCallState) -> float:
    import tenacity

    failed = state.outcome.exception() if state.outcome else None
    if isinstance(failed, AttemptError) and failed.retry_after is not None:
        return failed.retry_after
    backoff = tenacity.wait_exponential(multiplier=0.5, max=8.0) + tenacity.wait_random(0, 0.5)
    return backoff(state)


class _Call:
    """One request that can be sent again and again."""

    __slots__ = ("_body", "_client", "_endpoint", "_headers", "_may_be_stale", "_timeout")

    def __init__(self, client: httpx.AsyncClient, endpoint: Endpoint, body: bytes) -> None:
        import httpx

        self._client = client
        self._endpoint = endpoint
        self._body = body
        self._headers = {"content-type": "application/json", "accept": "text/event-stream, application/json"}
        if endpoint.api_key is not None:
            self._headers["authorization"] = f"Bearer {endpoint.api_key}"
        self._timeout = httpx.Timeout(endpoint.timeout, connect=CONNECT_SECONDS)
        self._may_be_stale = True

    async def attempt(self) -> _Answer:
        """An answer that has begun. Raises AttemptError."""
        import httpx

        try:
            response = await self._send()
        except httpx.TransportError as error:
            raise faults.unreachable(self._endpoint, error) from error
        except (httpx.InvalidURL, UnicodeError) as error:
            raise faults.impossible_address(self._endpoint) from error
        try:
            return await self._begin(response)
        except BaseException:
            await response.aclose()
            raise

    async def _send(self) -> httpx.Response:
        import httpx

        # A server may close a kept connection just when it is used again. That is nobody's fault and says nothing
        # about the next one, so the request is sent once more, at once.
        try:
            return await self._client.send(self._request(), stream=True)
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            if not self._may_be_stale:
                raise
            self._may_be_stale = False
        return await self._client.send(self._request(), stream=True)

    def _request(self) -> httpx.Request:
        return self._client.build_request(
            "POST", self._endpoint.url, content=self._body, headers=self._headers, timeout=self._timeout
        )

    async def _begin(self, response: httpx.Response) -> _Answer:
        endpoint = self._endpoint
        content_type = response.headers.get("content-type", "").lower()
        if not response.is_success:
            body = await _read_body(response, _LONGEST_ERROR)
            said = faults.said_in(body or b"", content_type, endpoint)
            wait = faults.retry_after_seconds(response.headers.get("retry-after"))
            raise faults.refused(endpoint, response.status_code, said, wait)
        answer = _Answer(endpoint, response)
        if "text/event-stream" in content_type:
            try:
                await answer.await_first()
            except BaseException:
                await answer.aclose()
                raise
        elif "json" in content_type:
            body = await _read_body(response, _LONGEST_COMPLETION)
            if body is None:
                raise AttemptError(faults.broken_off(endpoint), again=True)
            answer.take_whole(body)
        else:
            kind = faults.quoted(content_type.partition(";")[0], endpoint) or "something unnamed"
            raise AttemptError(faults.not_a_model_server(endpoint, f"answered with {kind}, not with a model's answer"))
        return answer


class _Answer:
    """The events of one answer. It is read as it is asked for: no task stands behind it, no scope stays open."""

    __slots__ = (
        "_called_tools",
        "_done",
        "_ended",
        "_endpoint",
        "_finish_reason",
        "_has_text",
        "_joiners",
        "_ready",
        "_response",
        "_sse",
        "state",
    )

    def __init__(self, endpoint: Endpoint, response: httpx.Response) -> None:
        from httpx_sse import EventSource

        self.state = StreamState()
        self._endpoint = endpoint
        self._response = response
        self._sse: AsyncIterator[ServerSentEvent] = EventSource(response).aiter_sse()
        self._ready: deque[StreamEvent] = deque()
        self._joiners = {"text": Joiner(), "reasoning": Joiner()}
        self._finish_reason: str | None = None
        self._has_text = self._called_tools = False
        self._ended = False  # everything the server had to say is in `_ready`
        self._done = False  # and nothing more is read

    def __aiter__(self) -> _Answer:
        return self

    async def __anext__(self) -> StreamEvent:
        while not self._ready:
            if self._done:
                raise StopAsyncIteration
            try:
                await self._read_on()
            except AttemptError as failed:
                self.state.error = failed.error
                await self.aclose()
                raise failed.error from failed.__cause__
        return self._ready.popleft()

    async def aclose(self) -> None:
        """End the answer: closing its connection tells the server to stop."""
        self._done = True
        self._ready.clear()
        if not self._response.is_closed:
            await _unwind(self._sse)
            await self._response.aclose()

    async def await_first(self) -> None:
        """Read until the first event is there. Raises AttemptError."""
        while not self._ready:
            await self._read_on()

    def take_whole(self, body: bytes) -> None:
        """Take a plain completion, as servers send it that do not stream. Raises AttemptError."""
        completion = self._read(body)
        self._take(completion)
        self._end()
        self._done = True

    async def _read_on(self) -> None:
        try:
            event = await self._next_event()
        except Exception as error:  # noqa: BLE001 (what is not the connection's failure is raised again)
            self._failed_to_read(error)
            event = None
        if event is None:
            if not self._ended:
                if self._finish_reason is None:
                    raise AttemptError(faults.broken_off(self._endpoint), again=True)
                self._end()
            self._done = True
            await self._response.aclose()
        elif self._ended:
            return
        elif event.data == "[DONE]":
            self._end()
        elif event.data:
            self._take(self._read(event.data))

    def _failed_to_read(self, error: Exception) -> None:
        """Raise what a failure of the connection means, unless the answer was complete by then."""
        import httpx

        if isinstance(error, httpx.TimeoutException):
            raise AttemptError(faults.silent(self._endpoint)) from error
        if not isinstance(error, httpx.RequestError):
            raise error
        # Whoever has said how the answer ended has said it all, however the connection ended.
        if self._finish_reason is None and not self._ended:
            raise AttemptError(faults.broken_off(self._endpoint), again=True) from error

    async def _next_event(self) -> ServerSentEvent | None:
        """The next event, None at the end. Once the answer is complete, the rest is waited for only briefly.

        The rest is read at all so that the connection can be used again.
        """
        if self._finish_reason is None and not self._ended:
            return await anext(self._sse, None)
        with trio.move_on_after(_GRACE_FOR_END if self._ended else _GRACE_FOR_USAGE):
            return await anext(self._sse, None)
        return None

    def _read(self, data: str | bytes) -> Completion:
        try:
            completion = read_completion(data)
        except (ValueError, RecursionError) as error:
            what = "sent something that is not a model's answer"
            raise AttemptError(faults.not_a_model_server(self._endpoint, what)) from error
        if completion.error:
            raise faults.refused_in_stream(self._endpoint, completion.error)
        return completion

    def _take(self, completion: Completion) -> None:
        if completion.usage:
            self.state.usage = completion.usage
        if not completion.choices:
            return
        choice = completion.choices[0]
        message = choice.delta or choice.message
        if message is not None:
            self._take_message(message)
        if choice.finish_reason is not None:
            self._finish_reason = choice.finish_reason

    def _take_message(self, message: Message) -> None:
        thought = message.reasoning_content or message.reasoning
        if thought and isinstance(thought, str):
            self._add("reasoning", self._joiners["reasoning"].feed(thought))
        content = message.content
        if content:
            self._add("text", self._joiners["text"].feed(content if type(content) is str else plain_text(content)))
        if message.tool_calls:
            self._called_tools = True

    def _add(self, kind: str, delta: str) -> None:
        if delta:
            self._has_text = self._has_text or kind == "text"
            self._ready.append(StreamEvent(kind, {"delta": delta}))

    def _end(self) -> None:
        self._ended = True
        for kind, joiner in self._joiners.items():
            self._add(kind, joiner.rest())
        if not self._has_text:
            reason, called = self._finish_reason, self._called_tools
            raise AttemptError(faults.empty(self._endpoint, reason, called_tools=called))
        if self.state.usage is not None:
            self._ready.append(StreamEvent("usage", self.state.usage))
        self._ready.append(StreamEvent("final", {"finish_reason": self._finish_reason}))


async def _read_body(response: httpx.Response, longest: int) -> bytes | None:
    """The body up to `longest` bytes, or None when the connection broke before its end."""
    import httpx

    body = bytearray()
    parts = response.aiter_bytes()
    try:
        async for part in parts:
            body += part
            if len(body) > longest:
                await _unwind(parts)
                break
    except httpx.HTTPError:
        return None
    return bytes(body)


async def _unwind(reading: AsyncIterator[Any]) -> None:
    """End a reading that is not at its end.

    Closing the outermost of httpx's nested generators would leave the inner ones to the garbage collector, which
    trio warns about; a cancellation thrown into the innermost read unwinds them all, and closes the connection.
    """
    with trio.CancelScope() as scope:
        scope.cancel()
        while await anext(reading, None) is not None:
            pass
