"""OpenAI's chat completions, which most servers speak: the request as they want it, and their answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from bub.agent.models import faults
from bub.agent.models.apis.effort import effort_fields
from bub.agent.models.conversation import answered, shown_behind
from bub.agent.models.draft import Draft
from bub.agent.models.endpoint import Endpoint
from bub.agent.models.names import ToolNames, fit_id
from bub.agent.models.parts import AUDIO, VIDEO, not_sent, text_part
from bub.agent.models.request import ChatRequest, ToolSpec, calls_in, name_in
from bub.agent.models.thoughts import own_blocks, own_thoughts
from bub.agent.models.wire import plain_text, read_json
from bub.tape.entry import THOUGHTS

_AUDIO_FORMATS = ("mp3", "wav")
_KEPT, _DETAILS = "reasoning_content", "reasoning_details"
_NO_THOUGHT = " "
"""What stands for the thoughts of a message that has none, for a provider that refuses it without."""
_GROWING = ("text", "summary", "data")
"""What of OpenRouter's details comes in pieces."""


class Message(msgspec.Struct, frozen=True):
    """A message or a piece of one. Nothing in it is certain: servers differ, and what is unknown is skipped."""

    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None
    refusal: Any = None
    tool_calls: Any = None


class CompletionChoice(msgspec.Struct, frozen=True):
    """One answer: a `delta` in a stream, the whole `message` in a plain completion."""

    delta: Message | None = None
    message: Message | None = None
    finish_reason: str | None = None


class Completion(msgspec.Struct, frozen=True):
    """A chunk of a stream, or a plain completion."""

    choices: list[CompletionChoice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(Completion)


def headers(endpoint: Endpoint) -> dict[str, str]:
    """How the key is sent, if there is one."""
    if endpoint.api_key is None:
        return {}
    own = endpoint.quirks.key_header
    return {own: endpoint.api_key} if own else {"authorization": f"Bearer {endpoint.api_key}"}


def body(endpoint: Endpoint, request: ChatRequest, names: ToolNames) -> dict[str, Any]:
    """The request as it is posted. Nothing in it changes from one step of a conversation to the next but its end."""
    accepted = re.compile(endpoint.quirks.call_ids, re.DOTALL)
    asked: dict[str, Any] = {
        "model": endpoint.model,
        "messages": [
            _message(message, endpoint, names, accepted) for message in answered(shown_behind(request.messages))
        ],
        "stream": True,
    }
    if endpoint.quirks.asks_for_usage:
        asked["stream_options"] = {"include_usage": True}
    limit = endpoint.max_tokens if request.max_tokens is None else request.max_tokens
    if limit is not None:
        asked[endpoint.quirks.limit_field] = limit
    temperature = endpoint.temperature_of(request.temperature)
    if temperature is not None:
        asked["temperature"] = temperature
    asked |= effort_fields(endpoint, request.reasoning)
    if request.tools:
        asked["tools"] = [_tool(tool, names) for tool in request.tools]
        if request.tool_choice is not None:
            asked["tool_choice"] = _choice(request.tool_choice, names)
    return asked


def _message(
    message: Mapping[str, Any], endpoint: Endpoint, names: ToolNames, accepted: re.Pattern[str]
) -> Mapping[str, Any]:
    if message.get("role") == "assistant":
        message = _with_thoughts(message, endpoint)
    if isinstance(message.get("content"), list | tuple):
        message = {**message, "content": [_part(part) for part in message["content"]]}
    if message.get("tool_calls"):
        calls = []
        for call in calls_in(message):
            function = {**(call.get("function") or {}), "name": names.wire(name_in(call))}
            calls.append({**call, "id": fit_id(call.get("id"), accepted), "function": function})
        return {**message, "tool_calls": calls}
    if "tool_call_id" in message:
        return {**message, "tool_call_id": fit_id(message["tool_call_id"], accepted)}
    return message


def _with_thoughts(message: Mapping[str, Any], endpoint: Endpoint) -> Mapping[str, Any]:
    """A message of the model with its thoughts in the field in which its provider wants them back, if it does."""
    plain = {name: value for name, value in message.items() if name != THOUGHTS}
    field = endpoint.quirks.echo
    if field == _KEPT:
        text = own_thoughts(message, endpoint.provider).get("text")
        if not text and re.match(endpoint.quirks.wants_echo, endpoint.model):
            text = _NO_THOUGHT
        return {**plain, field: text} if text else plain
    if field == _DETAILS:
        blocks = own_blocks(message, endpoint.provider, endpoint.model)
        return {**plain, field: [placed["block"] for placed in blocks]} if blocks else plain
    if field == "content":
        text = own_thoughts(message, endpoint.provider).get("text")
        content = plain.get("content")
        said = [text_part(content)] if isinstance(content, str) and content else list(content or ())
        thought = {"type": "thinking", "thinking": [text_part(str(text))]}
        return {**plain, "content": [thought, *said]} if text else plain
    return plain


def _part(part: Any) -> Any:
    """A part of a message, or a line in its place where this API does not take it."""
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == VIDEO or (kind == AUDIO and part[AUDIO].get("format") not in _AUDIO_FORMATS):
        return not_sent(part)
    return part


def _tool(tool: ToolSpec, names: ToolNames) -> dict[str, Any]:
    function = {"name": names.wire(tool.name), "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def _choice(choice: str, names: ToolNames) -> str | dict[str, Any]:
    if choice in ("auto", "required", "none"):
        return choice
    return {"type": "function", "function": {"name": names.wire(choice)}}


def reader(endpoint: Endpoint, draft: Draft) -> ChunkReader:
    """Who reads an answer into the draft."""
    return ChunkReader(endpoint, draft)


class ChunkReader:
    """Reads chunks of a stream, or a plain completion, into a draft."""

    __slots__ = ("_details", "_draft", "_endpoint")

    def __init__(self, endpoint: Endpoint, draft: Draft) -> None:
        self._endpoint = endpoint
        self._draft = draft
        self._details: dict[tuple[Any, Any], dict[str, Any]] = {}

    def take(self, data: str) -> None:
        """Take one chunk, or the `[DONE]` behind the last."""
        if data == "[DONE]":
            self._draft.end()
        else:
            self._take(read_json(data, _decoder))

    def take_whole(self, body: bytes) -> None:
        """Take a plain completion."""
        self._take(read_json(body, _decoder))

    def _take(self, completion: Completion) -> None:
        if completion.error:
            raise faults.explain_stream_error(self._endpoint, completion.error)
        if completion.usage:
            self._draft.usage(completion.usage)
        if not completion.choices:
            return
        choice = completion.choices[0]
        message = choice.delta or choice.message
        if message is not None:
            self._take_message(message)
        if choice.finish_reason is not None:
            self._draft.finish_reason = choice.finish_reason

    def _take_message(self, message: Message) -> None:
        draft = self._draft
        thought = message.reasoning_content or message.reasoning
        if thought and isinstance(thought, str):
            draft.reasoning(thought)
        if message.reasoning_details:
            self._take_details(message.reasoning_details)
        content = message.content
        if content:
            if type(content) is not str:
                self._take_thoughts(content)
            draft.text(content if type(content) is str else plain_text(content))
        if message.refusal and isinstance(message.refusal, str):
            draft.text(message.refusal)
        if message.tool_calls:
            self._take_calls(message.tool_calls)

    def _take_thoughts(self, content: Any) -> None:
        """Mistral's thoughts, which are parts of the content."""
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict) and part.get("type") == "thinking":
                self._draft.reasoning(plain_text(part.get("thinking")))

    def _take_details(self, details: Any) -> None:
        """OpenRouter's thoughts as their provider has signed them: each grows by the pieces of its index."""
        for piece in details if isinstance(details, list) else ():
            if not isinstance(piece, dict):
                continue
            key = (piece.get("index"), piece.get("type"))
            block = self._details.get(key)
            if block is None:
                block = self._details[key] = dict(piece)
                self._draft.thought(block)
                continue
            for name, value in piece.items():
                if name in _GROWING and isinstance(value, str) and isinstance(block.get(name), str):
                    block[name] += value
                elif value is not None:
                    block[name] = value

    def _take_calls(self, calls: Any) -> None:
        for call in calls if isinstance(calls, list) else ():
            if not isinstance(call, dict):
                continue
            function = call.get("function")
            if not isinstance(function, dict):
                function = {}
            # `extra_content` is Gemini's: it wants its signatures back with the call.
            self._draft.call(
                call.get("index"),
                call.get("id"),
                function.get("name"),
                function.get("arguments"),
                call.get("extra_content"),
            )
