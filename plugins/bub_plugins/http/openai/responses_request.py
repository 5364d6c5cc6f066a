"""A request of responses (https://platform.openai.com/docs/api-reference/responses/create), read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bub.channels import ClientTool
from bub_plugins.http.openai.asked import (
    Asked,
    Wishes,
    build,
    check_tools,
    read_choice,
    read_effort,
    read_tool,
    refuse_asked,
)
from bub_plugins.http.openai.errors import refuse
from bub_plugins.http.openai.reading import get, need, number, objects

_USE_SESSIONS = "no response is kept; to go on with a conversation, send the header X-Bub-Session with a name of yours"

_REFUSED = {
    "previous_response_id": _USE_SESSIONS,
    "conversation": _USE_SESSIONS,
    "background": "wait for the answer, or stream it",
    "prompt": "no templates are kept here",
    "top_logprobs": "Bub has no probabilities of tokens",
}

_TEXTS = ("input_text", "output_text", "text", "refusal")


def read_response(said: Mapping[str, Any], session: str) -> Asked:
    """Read a request; `session` names the session that it belongs to, "" for none. Raises `ApiError`.

    `store` is ignored: the answer says that nothing is stored.
    """
    refuse_asked(said, _REFUSED)
    text = get(said, "text", dict) or {}
    form = get(text, "format", dict, "text") or {"type": "text"}
    if form.get("type") != "text":
        kind = f"`text.format` is `{form.get('type')!s:.40}`"
        problem = f"{kind}, which is not supported: say in the prompt what you want."
        refuse(problem, "text.format", "unsupported_parameter")
    tools = check_tools(_read_tools(said))
    choice = said.get("tool_choice")
    named = choice.get("name") if isinstance(choice, dict) and choice.get("type") == "function" else None
    effort = get(get(said, "reasoning", dict) or {}, "effort", str, "reasoning")
    wishes = Wishes(
        tools=tools,
        tool_choice=read_choice(choice, tools, named if isinstance(named, str) else None),
        one_at_a_time=get(said, "parallel_tool_calls", bool) is False,
        max_tokens=number(said, "max_output_tokens", int, 1, 10_000_000),
        temperature=number(said, "temperature", float, 0, 2),
        reasoning=read_effort(effort, "reasoning.effort"),
    )
    instructions = get(said, "instructions", str)
    messages = _read_input(said.get("input"))
    if instructions:
        messages.insert(0, {"role": "developer", "content": instructions})
    echo = {
        "instructions": instructions,
        "max_output_tokens": wishes.max_tokens,
        "temperature": wishes.temperature,
        "parallel_tool_calls": not wishes.one_at_a_time,
        "tool_choice": choice if choice is not None else "auto",
        "tools": said.get("tools") or [],
        "reasoning": {"effort": effort, "summary": None},
        "metadata": get(said, "metadata", dict) or {},
    }
    return build(said, messages, wishes, session, param="input", echo=echo)


def _read_tools(said: Mapping[str, Any]) -> list[ClientTool]:
    tools = []
    for index, tool in enumerate(objects(said.get("tools") or [], "tools")):
        place = f"tools[{index}]"
        if tool.get("type") != "function":
            problem = f"`{place}.type` is `{tool.get('type')!s:.40}`: only functions can be brought."
            refuse(problem, f"{place}.type", "unsupported_parameter")
        tools.append(read_tool(need(tool, "name", str, place), tool, place))
    return tools


def _read_input(said: Any) -> list[dict[str, Any]]:
    """The items of a request as messages of a chat."""
    if isinstance(said, str):
        return [{"role": "user", "content": said}]
    messages: list[dict[str, Any]] = []
    for index, item in enumerate(objects(said, "input")):
        place = f"input[{index}]"
        match item.get("type", "message"):
            case "message":
                messages.append({"role": need(item, "role", str, place), "content": _read_content(item, place)})
            case "function_call":
                _add_call(messages, item, place)
            case "function_call_output":
                key = need(item, "call_id", str, place)
                messages.append({"role": "tool", "tool_call_id": key, "content": _read_output(item, place)})
            case "reasoning":
                continue  # what a model thought is not given back to the model of a profile
            case "item_reference":
                refuse(f"`{place}` names an item, and none is kept here: send the item itself.", place)
            case other:
                refuse(f"`{place}.type` is `{other!s:.40}`, which is not supported.", f"{place}.type")
    return messages


def _add_call(messages: list[dict[str, Any]], item: Mapping[str, Any], place: str) -> None:
    """A call belongs to what the model said before it."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": None})
    function = {"name": need(item, "name", str, place), "arguments": need(item, "arguments", str, place)}
    call = {"id": need(item, "call_id", str, place), "type": "function", "function": function}
    messages[-1].setdefault("tool_calls", []).append(call)


def _read_output(item: Mapping[str, Any], place: str) -> Any:
    output = item.get("output")
    return output if isinstance(output, str) else _read_parts(output, f"{place}.output")


def _read_content(item: Mapping[str, Any], place: str) -> Any:
    content = item.get("content")
    return content if isinstance(content, str) else _read_parts(content, f"{place}.content")


def _read_parts(parts: Any, param: str) -> list[dict[str, Any]]:
    """The parts of an item as those of a chat's message."""
    read: list[dict[str, Any]] = []
    for index, part in enumerate(objects(parts, param)):
        place = f"{param}[{index}]"
        kind = part.get("type")
        if kind in _TEXTS:
            read.append({"type": "text", "text": need(part, "refusal" if kind == "refusal" else "text", str, place)})
        elif kind == "input_image":
            read.append({"type": "image_url", "image_url": {"url": need(part, "image_url", str, place)}})
        elif kind == "input_file":
            named = {"filename": get(part, "filename", str, place)}
            read.append({"type": "file", "file": {**named, "file_data": need(part, "file_data", str, place)}})
        else:
            refuse(f"`{place}.type` is `{kind!s:.40}`, which is not supported.", f"{place}.type")
    return read
