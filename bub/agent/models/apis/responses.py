"""OpenAI's Responses API: a conversation as items, and its answers. Nothing is stored there.

Since nothing is stored, what the model thinks comes sealed, and goes back as it came before the calls that it led to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from bub.agent.models import faults
from bub.agent.models.apis import openai
from bub.agent.models.draft import Draft
from bub.agent.models.endpoint import Endpoint
from bub.agent.models.names import ToolNames, fit_id
from bub.agent.models.parts import FILE, IMAGE, not_sent
from bub.agent.models.request import ChatRequest, calls_in, name_in
from bub.agent.models.thoughts import own_blocks, put_in_place
from bub.agent.models.wire import plain_text, read_json

_SEALED = "reasoning.encrypted_content"
_KEPT = ("type", "id", "summary", "content", "encrypted_content")
_TEXTS = ("response.output_text.delta", "response.refusal.delta")
_THOUGHTS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_CUTS: Mapping[str, str] = MappingProxyType({"max_output_tokens": "length", "content_filter": "content_filter"})

Item = dict[str, Any]

headers = openai.headers


def body(endpoint: Endpoint, request: ChatRequest, names: ToolNames) -> dict[str, Any]:
    """The request as it is posted: nothing is stored, and sealed thoughts are asked for if the model has any."""
    accepted = re.compile(endpoint.quirks.call_ids, re.DOTALL)
    system = [text for message in request.messages if _is_system(message) if (text := _text(message.get("content")))]
    items = [item for message in request.messages for item in _items(message, endpoint, names, accepted)]
    asked: dict[str, Any] = {"model": endpoint.model}
    if system:
        asked["instructions"] = "\n\n".join(system)
    asked |= {"input": items, "stream": True, "store": False}
    limit = endpoint.max_tokens if request.max_tokens is None else request.max_tokens
    temperature = endpoint.temperature_of(request.temperature)
    given = {"max_output_tokens": limit, "temperature": temperature}
    asked |= {name: value for name, value in given.items() if value is not None}
    wanted, kind = endpoint.reasoning if request.reasoning is None else request.reasoning, endpoint.thinking
    if kind.style:
        asked["include"] = [_SEALED]
        word = kind.word_for(wanted) if wanted is not None else None
        if word is not None:
            asked["reasoning"] = {"effort": word}
    if request.tools:
        asked["tools"] = [
            {
                "type": "function",
                "name": names.wire(tool.name),
                "description": tool.description,
                "parameters": dict(tool.parameters),
                "strict": False,
            }
            for tool in request.tools
        ]
        choice = request.tool_choice
        if choice is not None:
            is_word = choice in ("auto", "required", "none")
            asked["tool_choice"] = choice if is_word else {"type": "function", "name": names.wire(choice)}
    return asked


def reader(endpoint: Endpoint, draft: Draft) -> ItemReader:
    """Who reads an answer into the draft."""
    return ItemReader(endpoint, draft)


def _is_system(message: Mapping[str, Any]) -> bool:
    return message.get("role") in ("system", "developer")


def _text(content: Any) -> str:
    return content if isinstance(content, str) else plain_text(list(content or ()))


def _items(
    message: Mapping[str, Any], endpoint: Endpoint, names: ToolNames, accepted: re.Pattern[str]
) -> Iterator[Item]:
    """A message as the items that it is here; a system prompt is none."""
    if _is_system(message):
        return
    role, content = message.get("role"), message.get("content")
    if role == "tool":
        call_id = fit_id(message.get("tool_call_id"), accepted)
        parts = content if isinstance(content, list | tuple) else ()
        shows = any(part.get("type") != "text" for part in parts)
        output = [_part(part) for part in parts] if shows else _text(content)
        yield {"type": "function_call_output", "call_id": call_id, "output": output}
    elif role == "assistant":
        text = _text(content)
        said = [{"role": "assistant", "content": [{"type": "output_text", "text": text}]}] if text else []
        calls = [
            {
                "type": "function_call",
                "call_id": fit_id(call.get("id"), accepted),
                "name": names.wire(name_in(call)),
                "arguments": call["function"]["arguments"],
            }
            for call in calls_in(message)
        ]
        yield from put_in_place([*said, *calls], own_blocks(message, endpoint.provider, endpoint.model))
    else:
        parts = content if isinstance(content, list | tuple) else [{"type": "text", "text": str(content)}]
        yield {"role": "user", "content": [_part(part) for part in parts]}


def _part(part: Any) -> Item:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == IMAGE:
        image = part[IMAGE]
        url = image.get("url") if isinstance(image, Mapping) else image
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    if kind == FILE:
        return {"type": "input_file", **part[FILE]}
    if kind != "text":
        part = not_sent(part) if isinstance(part, Mapping) else {"text": str(part)}
    return {"type": "input_text", "text": str(part.get("text") or "")}


class Event(msgspec.Struct, frozen=True):
    """One event of a stream, or a whole response, which has the fields of the last one. Nothing in it is certain."""

    type: str | None = None
    object: str | None = None
    output_index: int | None = None
    delta: Any = None
    item: dict[str, Any] | None = None
    response: Event | None = None
    output: list[dict[str, Any]] | None = None
    incomplete_details: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    code: Any = None
    message: Any = None


_decoder = msgspec.json.Decoder(Event)


class ItemReader:
    """Reads the events of a stream, or a whole response, into a draft. Events that it does not know are skipped."""

    __slots__ = ("_draft", "_endpoint", "_in_pieces")

    def __init__(self, endpoint: Endpoint, draft: Draft) -> None:
        self._endpoint = endpoint
        self._draft = draft
        self._in_pieces: set[int | None] = set()
        """The calls of which arguments have come."""

    def take(self, data: str) -> None:
        """Take the data of one event."""
        event = read_json(data, _decoder)
        kind, draft = event.type, self._draft
        if kind in _TEXTS and isinstance(event.delta, str):
            draft.text(event.delta)
        elif kind in _THOUGHTS and isinstance(event.delta, str):
            draft.reasoning(event.delta)
        elif kind == "response.function_call_arguments.delta":
            self._in_pieces.add(event.output_index)
            draft.call(event.output_index, None, None, event.delta)
        elif kind == "response.output_item.added" and event.item is not None:
            if event.item.get("type") == "function_call":
                draft.call(event.output_index, event.item.get("call_id"), event.item.get("name"), None)
        elif kind == "response.output_item.done" and event.item is not None:
            self._take_item(event.output_index, event.item)
        elif kind in ("response.completed", "response.incomplete") and event.response is not None:
            self._take_end(event.response)
            draft.end()
        elif kind == "response.failed" and event.response is not None:
            raise faults.explain_stream_error(self._endpoint, event.response.error or "the response failed")
        elif kind == "error":
            said = event.error or {"code": event.code, "message": event.message}
            raise faults.explain_stream_error(self._endpoint, said)
        elif kind is None:
            raise ValueError("an event without a type")

    def take_whole(self, body: bytes) -> None:
        """Take a response that came all at once."""
        response = read_json(body, _decoder)
        if response.error:
            raise faults.explain_stream_error(self._endpoint, response.error)
        if response.object != "response":
            raise ValueError("no response")
        for index, item in enumerate(response.output or ()):
            self._take_item(index, item)
            for part in item.get("content") or () if item.get("type") == "message" else ():
                self._draft.text(str(part.get("text") or part.get("refusal") or ""))
        self._take_end(response)

    def _take_item(self, index: int | None, item: Item) -> None:
        """Take an item that is complete; the words of one were told piece by piece."""
        if item.get("type") == "reasoning":
            self._draft.thought({name: item[name] for name in _KEPT if item.get(name) is not None})
        elif item.get("type") == "function_call" and index not in self._in_pieces:
            self._draft.call(index, item.get("call_id"), item.get("name"), item.get("arguments"))

    def _take_end(self, response: Event) -> None:
        if response.usage:
            self._draft.usage(response.usage)
        reason = (response.incomplete_details or {}).get("reason")
        self._draft.finish_reason = _CUTS.get(str(reason), str(reason)) if reason else "stop"
