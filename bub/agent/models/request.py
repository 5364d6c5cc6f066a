"""What a model is asked: messages and tools in Bub's own form, which each API's dialect then writes in its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


class ToolSpec(msgspec.Struct, frozen=True):
    """What a model learns of a tool: its dotted name, what it does, and the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class ChatRequest(msgspec.Struct, frozen=True):
    """What a model is asked: the messages, and what this request wants other than its endpoint says.

    `messages` have the form of OpenAI's chat completions for every API. `tools` are offered in this order;
    `tool_choice` is "auto", "required", "none" or the dotted name of one of them, None leaves it to the provider.
    `reasoning` is how much the model is to think: a level, or a number of tokens.
    """

    messages: Sequence[Mapping[str, Any]]
    max_tokens: int | None = None
    temperature: float | None = None
    tools: Sequence[ToolSpec] = ()
    tool_choice: str | None = None
    reasoning: str | int | None = None

    @classmethod
    def of_prompt(cls, prompt: str | Sequence[Mapping[str, Any]], system: str | None = None) -> ChatRequest:
        """A request of one prompt (text, or a list of content parts), under a system prompt if there is one."""
        asked: dict[str, Any] = {"role": "user", "content": prompt}
        return cls([{"role": "system", "content": system}, asked] if system else [asked])


def calls_in(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The tool calls of a message, each with its `id` and its `function`; none for most messages."""
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, Mapping)] if isinstance(calls, list | tuple) else []


def name_in(call: Mapping[str, Any]) -> str:
    """The name of the tool that a call in a message wants."""
    function = call.get("function")
    return str(function.get("name") or "") if isinstance(function, Mapping) else ""


def call_ids_in(messages: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """The ids of all tool calls of a conversation."""
    return frozenset(str(call.get("id")) for message in messages for call in calls_in(message))
