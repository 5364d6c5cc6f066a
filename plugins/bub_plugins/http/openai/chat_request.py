"""A request of chat completions (https://platform.openai.com/docs/api-reference/chat/create), read."""

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
from bub_plugins.http.openai.stopping import read_stops

_REFUSED = {
    "logprobs": "Bub has no probabilities of tokens",
    "top_logprobs": "Bub has no probabilities of tokens",
    "logit_bias": "not every model of a profile can do this",
    "audio": "an answer is text",
    "functions": "use `tools`",
    "function_call": "use `tool_choice`",
    "web_search_options": "a profile searches the web with tools of its own",
}


def read_chat(said: Mapping[str, Any], session: str) -> Asked:
    """Read a request; `session` names the session that it belongs to, "" for none. Raises `ApiError`.

    What changes the meaning of the answer and cannot be honoured is refused; what only tunes it is ignored.
    """
    refuse_asked(said, _REFUSED)
    if number(said, "n", int, 1, 128) not in (None, 1):
        refuse("`n` has to be 1: a turn gives one answer.", "n", "unsupported_parameter")
    if said.get("modalities") not in (None, ["text"]):
        refuse('`modalities` has to be ["text"]: an answer is text.', "modalities", "unsupported_parameter")
    _check_format(get(said, "response_format", dict))
    tools = check_tools(_read_tools(said))
    choice = said.get("tool_choice")
    limits = [number(said, key, int, 1, 10_000_000) for key in ("max_completion_tokens", "max_tokens")]
    wishes = Wishes(
        tools=tools,
        tool_choice=read_choice(choice, tools, _function_name(choice)),
        one_at_a_time=get(said, "parallel_tool_calls", bool) is False,
        max_tokens=next((limit for limit in limits if limit is not None), None),
        temperature=number(said, "temperature", float, 0, 2),
        reasoning=read_effort(get(said, "reasoning_effort", str), "reasoning_effort"),
    )
    options = get(said, "stream_options", dict) or {}
    counts = bool(get(options, "include_usage", bool, "stream_options"))
    more = {"include_usage": counts, "stops": read_stops(said)}
    return build(said, said.get("messages"), wishes, session, param="messages", **more)


def _check_format(said: Mapping[str, Any] | None) -> None:
    kind = said.get("type") if said is not None else "text"
    if kind != "text":
        problem = f"`response_format` is `{kind!s:.40}`, which is not supported: say in the prompt what you want."
        refuse(problem, "response_format", "unsupported_parameter")


def _read_tools(said: Mapping[str, Any]) -> list[ClientTool]:
    tools = []
    for index, tool in enumerate(objects(said.get("tools") or [], "tools")):
        place = f"tools[{index}]"
        if tool.get("type") != "function":
            refuse(f"`{place}.type` has to be `function`.", f"{place}.type")
        function = need(tool, "function", dict, place)
        tools.append(read_tool(need(function, "name", str, f"{place}.function"), function, f"{place}.function"))
    return tools


def _function_name(choice: Any) -> str | None:
    function = choice.get("function") if isinstance(choice, dict) and choice.get("type") == "function" else None
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else None
