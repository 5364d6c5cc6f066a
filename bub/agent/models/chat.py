"""Asking a model: one request, sent again until the answer begins, then the answer as a stream of events."""

from __future__ import annotations

import random
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import trio
from msgspec.structs import replace

from bub.agent.models import faults
from bub.agent.models.answer import Answer, Reader, unwind
from bub.agent.models.apis import anthropic, openai, responses
from bub.agent.models.client import CONNECT_SECONDS
from bub.agent.models.conversation import refuses_system, well_formed, without_system
from bub.agent.models.draft import Draft
from bub.agent.models.endpoint import Endpoint
from bub.agent.models.faults import AttemptError
from bub.agent.models.names import ToolNames
from bub.agent.models.request import ChatRequest, ToolSpec, call_ids_in
from bub.agent.models.wire import write_body
from bub.base.backoff import Backoff
from bub.base.tracing.activity import trace_headers
from bub.errors import ModelError
from bub.log import log_info
from bub.streaming import AsyncStreamEvents

if TYPE_CHECKING:  # imported where a model is asked: a turn that asks none, or one in this process, does without
    import httpx

__all__ = ["LONGEST_PAUSE", "Chat", "ChatRequest", "Pause", "ToolSpec", "stream_chat"]

LONGEST_PAUSE = 300.0
"""Seconds that are waited in all before one answer; if a server asks for more (`Retry-After`), the request fails."""

_BACKOFF = Backoff(1.0, longest=8.0, spread=0.5)
_LONGEST_ERROR = 64 * 1024
_LONGEST_COMPLETION = 16 * 1024 * 1024


class Dialect(Protocol):
    """One API: how its requests are written, and who reads its answers."""

    def headers(self, endpoint: Endpoint) -> dict[str, str]:
        """What is sent beside the body, the key above all."""
        ...

    def body(self, endpoint: Endpoint, request: ChatRequest, names: ToolNames) -> dict[str, Any]:
        """What is posted to the endpoint's URL."""
        ...

    def reader(self, endpoint: Endpoint, draft: Draft) -> Reader:
        """Who reads the answer into the draft."""
        ...


_DIALECTS: Mapping[str, Dialect] = MappingProxyType({"openai": openai, "anthropic": anthropic, "responses": responses})


class Pause(msgspec.Struct, frozen=True):
    """No answer has begun: `reason` is why, and the server is asked again in so many `seconds`."""

    seconds: float
    reason: ModelError


class Chat:
    """One request, whose `messages` are well-formed, on its way to an answer.

    Until the answer begins, what may pass is tried again as often as the endpoint allows, and within `longest_pause`
    seconds of waiting in all. A model whose template refuses a system prompt gets it ahead of the user's first words;
    `take_no_system` remembers which do.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        endpoint: Endpoint,
        request: ChatRequest,
        longest_pause: float = LONGEST_PAUSE,
        take_no_system: set[str] | None = None,
    ) -> None:
        self._client, self._endpoint, self._request = client, endpoint, request
        self._call = _Call(client, endpoint, request)
        self._take_no_system = take_no_system if take_no_system is not None else set()
        self._who = f"{endpoint.provider}:{endpoint.model} ({endpoint.host})"
        self._is_without_system = False
        if self._who in self._take_no_system:
            self._leave_out_system()
        self._left = endpoint.retries
        self._longest_pause = longest_pause
        self._pauses: list[float] = []

    async def go_on(self) -> AsyncStreamEvents | Pause:
        """The answer once it has begun; or a pause that begins with the next call of this. Raises `ModelError`."""
        if self._pauses:
            await trio.sleep(self._pauses[-1])
        try:
            answer = await self._attempt()
        except AttemptError as failed:
            asked = sum(self._pauses) + (failed.retry_after or 0)
            if not self._left or not failed.again or asked > self._longest_pause:
                raise failed.take_error() from failed.__cause__
            self._left -= 1
            self._pauses.append(self._pause_after(failed))
            return Pause(self._pauses[-1], failed.error)
        return AsyncStreamEvents(answer, answer.state)

    async def _attempt(self) -> Answer:
        """An answer that has begun; a model that takes no system prompt is told at once what it says another way."""
        try:
            answer = await self._call.attempt()
        except AttemptError as failed:
            if self._is_without_system or not refuses_system(failed.said, self._request.messages):
                raise
            self._leave_out_system()
            try:
                return await self._attempt()
            except AttemptError as again:  # it was something else that the server did not want
                raise (failed if refuses_system(again.said, self._request.messages) else again) from None
        if self._is_without_system and self._who not in self._take_no_system:
            log_info("model.takes_no_system_prompt", who=self._who)
            self._take_no_system.add(self._who)
        return answer

    def _leave_out_system(self) -> None:
        self._is_without_system = True
        request = replace(self._request, messages=without_system(self._request.messages))
        self._call = _Call(self._client, self._endpoint, request)

    def _pause_after(self, failed: AttemptError) -> float:
        if failed.retry_after is not None:
            # Everybody who was turned away is told the same time, and should not come back at the same moment.
            return failed.retry_after * random.uniform(1.0, 1.1)
        return _BACKOFF.pause_after(len(self._pauses) + 1)


async def stream_chat(client: httpx.AsyncClient, endpoint: Endpoint, request: ChatRequest) -> AsyncStreamEvents:
    """The model's answer, once it has begun: `text` and `reasoning`, each `tool_call`, `usage` if counted, `final`.

    `final` carries the `finish_reason`, in OpenAI's words for every API. Until the answer has begun, what may
    pass is tried again as often as the endpoint allows; afterwards nothing is. Close the stream to leave early: its
    connection ends at once, and with it the server's work. Every failure is one `ModelError`, raised here or while
    iterating; `state.error` keeps it.
    """
    shaped = replace(request, messages=well_formed(request.messages))
    chat = Chat(client, endpoint, shaped)
    while isinstance(came := await chat.go_on(), Pause):
        pass
    return came


class _Call:
    """One request that can be sent again and again."""

    __slots__ = (
        "_body",
        "_client",
        "_dialect",
        "_endpoint",
        "_headers",
        "_may_be_stale",
        "_names",
        "_taken_ids",
        "_timeout",
    )

    def __init__(self, client: httpx.AsyncClient, endpoint: Endpoint, request: ChatRequest) -> None:
        import httpx

        self._client = client
        self._endpoint = endpoint
        self._dialect = _DIALECTS[endpoint.api]
        self._names = ToolNames(request)
        self._taken_ids = call_ids_in(request.messages)
        body = {**self._dialect.body(endpoint, request, self._names), **endpoint.extra_body}
        self._body = write_body({name: value for name, value in body.items() if value is not None})
        self._headers = {
            "content-type": "application/json",
            "accept": "text/event-stream, application/json",
            **self._dialect.headers(endpoint),
            **endpoint.headers,
        }
        self._timeout = httpx.Timeout(endpoint.timeout, connect=CONNECT_SECONDS)
        self._may_be_stale = True

    async def attempt(self) -> Answer:
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
        headers = {**self._headers, **trace_headers()}
        return self._client.build_request(
            "POST", self._endpoint.url, content=self._body, headers=headers, timeout=self._timeout
        )

    async def _begin(self, response: httpx.Response) -> Answer:
        endpoint = self._endpoint
        content_type = response.headers.get("content-type", "").lower()
        if not response.is_success:
            body = await _read_body(response, _LONGEST_ERROR)
            said = faults.read_error_body(body or b"", content_type)
            wait = faults.retry_after_seconds(response.headers.get("retry-after"))
            raise faults.explain_refusal(endpoint, response.status_code, said, wait)
        draft = Draft(endpoint, self._names, self._taken_ids)
        answer = Answer(endpoint, response, draft, self._dialect.reader(endpoint, draft))
        if "text/event-stream" in content_type:
            try:
                await answer.await_first()
            except BaseException:
                await answer.aclose()
                raise
        elif "json" in content_type:
            body = await _read_body(response, _LONGEST_COMPLETION)
            if body is None:
                raise AttemptError(faults.report_break_off(endpoint), again=True)
            answer.take_whole(body)
        else:
            kind = faults.quote_words(content_type.partition(";")[0], endpoint) or "something unnamed"
            raise AttemptError(faults.not_a_model_server(endpoint, f"answered with {kind}, not with a model's answer"))
        return answer


async def _read_body(response: httpx.Response, longest: int) -> bytes | None:
    """The body up to `longest` bytes, or None when the connection broke before its end."""
    import httpx

    body = bytearray()
    parts = response.aiter_bytes()
    try:
        async for part in parts:
            body += part
            if len(body) > longest:
                await unwind(parts)
                break
    except httpx.HTTPError:
        return None
    return bytes(body)
