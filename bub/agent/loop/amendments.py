"""What plugins may change in a request before a model gets it (BEHAVIOURS A19)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import UnionType
from typing import Any

from bub.agent.models.request import ChatRequest, ToolSpec
from bub.errors import BubError

_AMENDABLE: Mapping[str, tuple[str, type | UnionType]] = {
    "model": ("a name", str),
    "messages": ("a list of messages", list),
    "tool_choice": ("a text", str),
    "max_tokens": ("a whole number", int),
    "temperature": ("a number", int | float),
    "reasoning": ("a level of thinking", str | int),
}
"""What `before_llm_call` may change in a request, and what it has to be."""


async def amend_request(
    request: Mapping[str, Any], fire: Callable[..., Awaitable[Any]]
) -> tuple[dict[str, Any], str | None]:
    """Return a request as the plugins want it, and the text to finish with instead of asking, if there is one.

    `fire` calls a hook point by its name. Raises BubError if a plugin makes something of the request that it cannot be.
    """
    amended = await fire("before_llm_call", request=copy_request(request)) or {}
    result = dict(request)
    for name, (expected, types) in _AMENDABLE.items():
        value = amended.get(name)
        if value is None:
            continue
        if not isinstance(value, types) or (isinstance(value, list) and not all(map(_is_message, value))):
            what = f"`before_llm_call` changed `{name}` into something that is not {expected}"
            raise BubError(what, help=f"a plugin of the profile returned {value!r:.100}")
        result[name] = value
    finish = amended.get("finish")
    return result, str(finish) if finish is not None else None


def new_request(
    chosen: Mapping[str, Any], messages: Sequence[Mapping[str, Any]], step: int, tools: Sequence[ToolSpec] = ()
) -> dict[str, Any]:
    """Return a request for the model that the session has `chosen`, as plugins get to see it."""
    return {
        "model": str(chosen.get("model") or ""),
        "messages": [*messages],
        "tools": [tool.name for tool in tools],
        "tool_choice": None,
        "max_tokens": None,
        "temperature": None,
        "reasoning": chosen.get("reasoning"),
        "step": step,
    }


def as_asked(request: Mapping[str, Any], tools: Sequence[ToolSpec] = ()) -> ChatRequest:
    """Return a request as the model is asked it, with the tools that it is offered."""
    return ChatRequest(
        request["messages"],
        request["max_tokens"],
        request["temperature"],
        tools,
        request["tool_choice"],
        request["reasoning"],
    )


def copy_request(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request for those who only look at it: what they change of it changes nothing."""
    return {**request, "messages": [dict(message) for message in request["messages"]]}


def _is_message(message: Any) -> bool:
    return isinstance(message, Mapping) and isinstance(message.get("role"), str)
