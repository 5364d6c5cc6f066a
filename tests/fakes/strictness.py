"""What real servers refuse in the shape of a conversation, as they say it: a status, and the body of the error.

Of chat completions, what the templates of Mistral's and Gemma's kind want (roles in turns, the system prompt first),
what llama.cpp wants (arguments that are JSON), and what OpenAI wants (a result for each call, right behind it, and
messages that say something). Of Messages, what Anthropic wants.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Message = dict[str, Any]
Refusal = tuple[int, dict[str, Any]]


_SOURCE = "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception(...) }}" * 4
NO_SYSTEM: dict[str, Refusal] = {
    "gemma": (
        500,
        {"error": {"code": 500, "message": f"{_SOURCE}\nError: Jinja Exception: System role not supported"}},
    ),
    "mistral": (
        400,
        {
            "object": "error",
            "message": "Conversation roles must alternate user/assistant/user/assistant/...",
            "type": "BadRequestError",
        },
    ),
    "instruct": (400, {"error": {"message": "Only user and assistant roles are supported!"}}),
    "o1": (
        400,
        {"error": {"message": "Unsupported value: 'messages[0].role' does not support 'system' with this model."}},
    ),
    "hosted": (400, {"error": {"message": "Developer instruction is not enabled for models/gemma-3-1b-it"}}),
}
"""How models refuse a system prompt whose names begin like this: those whose template has no place for one."""


def refuse(path: str, request: dict[str, Any]) -> Refusal | None:
    """The first thing that is wrong with a request."""
    kind = request["model"].partition("-")[0]
    if kind in NO_SYSTEM and any(message["role"] == "system" for message in request["messages"]):
        return NO_SYSTEM[kind]
    if path.endswith("/messages"):
        wrong = next(_wrong_for_anthropic(request["messages"]), None)
        if wrong is None:
            return None
        return 400, {"type": "error", "error": {"type": "invalid_request_error", "message": wrong}}
    messages = request["messages"]
    for problem in _unread_arguments(messages):
        said = f"Failed to parse tool call arguments as JSON: {problem}"
        return 500, {"error": {"code": 500, "message": said, "type": "server_error"}}
    for wrong in (*_wrong_results(messages), *_wrong_roles(messages)):
        return 400, {"error": {"message": wrong, "type": "invalid_request_error"}}
    return None


def _unread_arguments(messages: list[Message]) -> Iterator[str]:
    for message in messages:
        for call in message.get("tool_calls") or ():
            try:
                json.loads(call["function"]["arguments"])
            except ValueError as error:
                yield f"[json.exception.parse_error.101] {error}"


def _wrong_results(messages: list[Message]) -> Iterator[str]:
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                yield "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
                return
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            yield f"an assistant message with 'tool_calls' must be followed by tool messages; missing: {waiting}"
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
        if not message.get("content") and not waiting:
            yield f"{message['role']} message must have either content or tool_calls"


def _wrong_roles(messages: list[Message]) -> Iterator[str]:
    told = messages[1:] if messages[0]["role"] == "system" else messages
    turns = 0
    for message in told:
        role = message["role"]
        if role not in ("user", "assistant", "tool"):
            yield "Only user, assistant and tool roles are supported, with an initial optional system message"
        if role == "tool" or message.get("tool_calls"):
            continue
        if (role == "user") != (turns % 2 == 0):
            yield "After the optional system message, conversation roles must alternate user/assistant/user/assistant"
        turns += 1
    if told and told[-1]["role"] == "assistant":
        yield "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"


def _wrong_for_anthropic(messages: list[Message]) -> Iterator[str]:
    waiting: set[str] = set()
    for at, message in enumerate(messages):
        if message["role"] != ("user", "assistant")[at % 2]:
            yield "messages: roles must alternate between user and assistant, the user's first"
        blocks = message["content"]
        results = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        if results != waiting:
            yield f"messages.{at}: `tool_use` ids without `tool_result` blocks immediately after, or vice versa"
        waiting = {block["id"] for block in blocks if block["type"] == "tool_use"}
        if any(not isinstance(block["input"], dict) for block in blocks if block["type"] == "tool_use"):
            yield f"messages.{at}: Input should be a valid dictionary"
        if any(not block["text"].strip() for block in blocks if block["type"] == "text"):
            yield f"messages.{at}: text content blocks must contain non-whitespace text"
