"""Anthropic's Messages API: a conversation in its form, and its answers.

It differs from chat completions in that system prompts are apart, that tool calls and results are blocks of
messages, that the two sides take turns, and that what its cache may keep has to be marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from bub.agent.models import faults
from bub.agent.models.apis.effort import thinking_of_claude
from bub.agent.models.calls import arguments_of
from bub.agent.models.draft import Draft
from bub.agent.models.endpoint import Endpoint
from bub.agent.models.names import ToolNames, fit_id
from bub.agent.models.parts import AUDIO, FILE, PDF, VIDEO, not_sent
from bub.agent.models.request import ChatRequest, calls_in, name_in
from bub.agent.models.thoughts import own_blocks, put_in_place
from bub.agent.models.wire import read_json

VERSION = "2023-06-01"
"""The version of the API that is asked for; it is the newest, and has stayed so since."""

DEFAULT_MAX_TOKENS = 8192
"""The longest answer if nobody sets one: this API requires a number."""

HIGHEST_TEMPERATURE = 1.0

_CALL_IDS = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CACHED = {"type": "ephemeral"}
_CHOICES = {"auto": "auto", "required": "any", "none": "none"}
_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "refusal": "content_filter",
}
_LONGEST_TITLE = 200
_IMAGES = ("image/gif", "image/jpeg", "image/png", "image/webp")

Block = dict[str, Any]


def headers(endpoint: Endpoint) -> dict[str, str]:
    """The version of the API, and the key if there is one."""
    key = {} if endpoint.api_key is None else {"x-api-key": endpoint.api_key}
    return {"anthropic-version": VERSION, **key}


def body(endpoint: Endpoint, request: ChatRequest, names: ToolNames) -> dict[str, Any]:
    """The request as it is posted.

    The cache keeps the tools, the system prompt and the conversation up to its last message, each of which
    begins the next request too.
    """
    limit = endpoint.max_tokens if request.max_tokens is None else request.max_tokens
    temperature = endpoint.temperature_of(request.temperature)
    tools, choice = _tools(request, names), _choice(request, names)
    is_forced = choice is not None and choice["type"] in ("any", "tool")
    thinking = thinking_of_claude(endpoint, request, limit, DEFAULT_MAX_TOKENS, is_forced=is_forced)
    system = _system(request.messages)
    messages = _messages(request.messages, names, endpoint if thinking.keeps_thoughts else None)
    _mark(tools)
    _mark(system)
    if messages:
        _mark(messages[-1]["content"])
    asked: dict[str, Any] = {"model": endpoint.model, "max_tokens": thinking.limit, **thinking.fields}
    if tools:
        asked["tools"] = tools
        if choice is not None:
            asked["tool_choice"] = choice
    if system:
        asked["system"] = system
    asked |= {"messages": messages, "stream": True}
    if temperature is not None and not thinking.on:
        asked["temperature"] = min(temperature, HIGHEST_TEMPERATURE)
    return asked


def reader(endpoint: Endpoint, draft: Draft) -> EventReader:
    """Who reads an answer into the draft."""
    return EventReader(endpoint, draft)


def _mark(blocks: list[Block]) -> None:
    if blocks:
        blocks[-1] = {**blocks[-1], "cache_control": _CACHED}


def _tools(request: ChatRequest, names: ToolNames) -> list[Block]:
    if request.tools:
        return [
            {
                "name": names.wire(tool.name),
                "description": tool.description,
                "input_schema": {"type": "object", **tool.parameters},
            }
            for tool in request.tools
        ]
    # A conversation with calls in it is refused where no tool is known.
    used = dict.fromkeys(name_in(call) for message in request.messages for call in calls_in(message))
    return [{"name": names.wire(name), "input_schema": {"type": "object"}} for name in used]


def _choice(request: ChatRequest, names: ToolNames) -> dict[str, Any] | None:
    choice = request.tool_choice if request.tools else "none"
    if choice is None:
        return None
    if choice in _CHOICES:
        return {"type": _CHOICES[choice]}
    return {"type": "tool", "name": names.wire(choice)}


def _system(messages: Iterable[Mapping[str, Any]]) -> list[Block]:
    return [block for message in messages if _is_system(message) for block in _blocks(message.get("content"))]


def _is_system(message: Mapping[str, Any]) -> bool:
    return message.get("role") in ("system", "developer")


def _messages(messages: Iterable[Mapping[str, Any]], names: ToolNames, keeper: Endpoint | None) -> list[dict[str, Any]]:
    """The conversation with its two sides in turns: results are the user's, and what is said behind them goes along."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        if _is_system(message):
            continue
        role = "assistant" if message.get("role") == "assistant" else "user"
        blocks = _of_assistant(message, names, keeper) if role == "assistant" else _of_user(message)
        if not blocks:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    for turn in turns:
        if turn["role"] == "user":
            # Results have to stand before whatever else is said in answer to calls; the sort keeps the rest in order.
            turn["content"].sort(key=_is_no_result)
    return turns


def _is_no_result(block: Block) -> bool:
    return block.get("type") != "tool_result"


def _of_assistant(message: Mapping[str, Any], names: ToolNames, keeper: Endpoint | None) -> list[Block]:
    """What the model said, called and thought; its thoughts only for the `keeper` who signed them."""
    blocks = _blocks(message.get("content"))
    for call in calls_in(message):
        blocks.append(
            {
                "type": "tool_use",
                "id": fit_id(call.get("id"), _CALL_IDS),
                "name": names.wire(name_in(call)),
                "input": arguments_of(call["function"]["arguments"]),
            }
        )
    if keeper is None or not blocks:
        return blocks
    return put_in_place(blocks, own_blocks(message, keeper.provider, keeper.model))


def _of_user(message: Mapping[str, Any]) -> list[Block]:
    if message.get("role") != "tool":
        return _blocks(message.get("content"))
    result: Block = {"type": "tool_result", "tool_use_id": fit_id(message.get("tool_call_id"), _CALL_IDS)}
    content = _blocks(message.get("content"))
    return [{**result, "content": content} if content else result]


def _blocks(content: Any) -> list[Block]:
    """The blocks of a message's content. Blank text is left out, since it is refused."""
    parts = content if isinstance(content, list | tuple) else [content]
    return [block for block in map(_block, parts) if block is not None]


def _block(part: Any) -> Block | None:
    if isinstance(part, str):
        return _text(part) if part.strip() else None
    if not isinstance(part, Mapping):
        return None
    kind = part.get("type")
    if kind == "text":
        return _block(part.get("text"))
    if kind == "image_url":
        image = part.get("image_url")
        return _image(str(image.get("url") if isinstance(image, Mapping) else image)) or not_sent(part)
    if kind == FILE:
        return _document(part[FILE]) or not_sent(part)
    return not_sent(part) if kind in (AUDIO, VIDEO) else dict(part)


def _document(file: Mapping[str, Any]) -> Block | None:
    """A PDF as a block; None for any other file."""
    about, _, data = str(file.get("file_data")).partition(",")
    if about != f"data:{PDF};base64":
        return None
    source = {"type": "base64", "media_type": PDF, "data": data}
    return {"type": "document", "source": source, "title": str(file.get("filename") or "")[:_LONGEST_TITLE]}


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _image(url: str) -> Block | None:
    """An image as a block; None for one of a type that is refused."""
    scheme, _, rest = url.partition(":")
    if scheme.lower() != "data":
        return {"type": "image", "source": {"type": "url", "url": url}}
    kind, _, data = rest.partition(",")
    media_type = kind.partition(";")[0].lower()
    if media_type not in _IMAGES:
        return None
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


class Piece(msgspec.Struct, frozen=True):
    """A block, a delta of one, or how a message ends. Nothing in it is certain."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    partial_json: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    stop_reason: str | None = None


class Event(msgspec.Struct, frozen=True):
    """One event of a stream, or a whole message, which has the same fields."""

    type: str | None = None
    index: int | None = None
    message: Event | None = None
    content_block: Piece | None = None
    delta: Piece | None = None
    content: list[Piece] | None = None
    stop_reason: str | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(Event)


class EventReader:
    """Reads the events of a stream, or a whole message, into a draft. Events it does not know are skipped."""

    __slots__ = ("_draft", "_endpoint", "_given", "_thoughts")

    def __init__(self, endpoint: Endpoint, draft: Draft) -> None:
        self._endpoint = endpoint
        self._draft = draft
        self._given: dict[int | None, Any] = {}
        self._thoughts: dict[int | None, Block] = {}

    def take(self, data: str) -> None:
        """Take the data of one event."""
        event = read_json(data, _decoder)
        kind = event.type
        if kind == "content_block_delta":
            if event.delta is not None:
                self._take_delta(event.index, event.delta)
        elif kind == "content_block_start":
            if event.content_block is not None:
                self._take_start(event.index, event.content_block)
        elif kind == "content_block_stop":
            self._take_given(event.index)
        elif kind == "message_start":
            if event.message is not None and event.message.usage:
                self._draft.usage(event.message.usage)
        elif kind == "message_delta":
            if event.usage:
                self._draft.usage(event.usage)
            if event.delta is not None:
                self._take_reason(event.delta.stop_reason)
        elif kind == "message_stop":
            self._draft.end()
        elif event.error:
            raise faults.explain_stream_error(self._endpoint, event.error)
        elif kind is None:
            raise ValueError("an event without a type")

    def take_whole(self, body: bytes) -> None:
        """Take a message that came all at once."""
        message = read_json(body, _decoder)
        if message.error:
            raise faults.explain_stream_error(self._endpoint, message.error)
        if message.usage:
            self._draft.usage(message.usage)
        for index, block in enumerate(message.content or ()):
            self._take_start(index, block)
            self._take_given(index)
        if message.type is None:
            raise ValueError("a message without a type")
        self._take_reason(message.stop_reason)

    def _take_delta(self, index: int | None, delta: Piece) -> None:
        if delta.text:
            self._draft.text(delta.text)
        elif delta.thinking or delta.signature:
            thought = self._thoughts.get(index)
            if thought is not None:
                thought["thinking"] += delta.thinking or ""
                thought["signature"] += delta.signature or ""
            if delta.thinking:
                self._draft.reasoning(delta.thinking)
        elif delta.partial_json:
            self._given.pop(index, None)
            self._draft.call(index, None, None, delta.partial_json)

    def _take_start(self, index: int | None, block: Piece) -> None:
        if block.type == "tool_use":
            self._draft.call(index, block.id, block.name, None)
            # Whole arguments may come with the block, but are only a place holder where pieces follow.
            self._given[index] = block.input
        elif block.type == "redacted_thinking":
            self._draft.thought({"type": block.type, "data": block.data})
        else:
            if block.type == "thinking":
                thought = self._thoughts[index] = {"type": block.type, "thinking": "", "signature": ""}
                self._draft.thought(thought)
            self._take_delta(index, block)

    def _take_given(self, index: int | None) -> None:
        given = self._given.pop(index, None)
        if given:
            self._draft.call(index, None, None, given)

    def _take_reason(self, reason: str | None) -> None:
        if reason is not None:
            self._draft.finish_reason = _REASONS.get(reason, reason)
