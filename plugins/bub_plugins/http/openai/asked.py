"""What a request asks for, through either API."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from bub.channels import ChannelMessage, ClientRequest, ClientTool, text_of_results
from bub_plugins.http.openai.conversation import Prompt, read_conversation, read_last
from bub_plugins.http.openai.errors import refuse
from bub_plugins.http.openai.reading import get, need

MOST_TOOLS = 128
"""How many tools a request may bring."""

_TOOL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_EFFORTS = {"none": "off", "minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high"}


class Asked(msgspec.Struct, frozen=True):
    """A request: the profile that is to answer, the prompt, and what else the program brings.

    `session` is the name of the session below the client, "" if the request's messages are all there is.
    """

    model: str
    prompt: Prompt
    request: ClientRequest
    session: str = ""
    stream: bool = False
    include_usage: bool = False
    stops: Sequence[str] = ()
    """Words at which the answer ends."""
    echo: Mapping[str, Any] = {}
    """What the answer says again of the request."""

    def message(self, address: ChannelMessage) -> ChannelMessage:
        """Return the message of the turn: `address` with the words of the prompt."""
        prompt = self.prompt
        return replace(
            address,
            content=text_of_results(prompt.results) if prompt.results else prompt.content,
            media=prompt.media,
        )


class Wishes(msgspec.Struct, frozen=True):
    """What a request wants of the model."""

    tools: Sequence[ClientTool] = ()
    tool_choice: str | None = None
    one_at_a_time: bool = False
    max_tokens: int | None = None
    temperature: float | None = None
    reasoning: str | None = None


def build(said: Mapping[str, Any], messages: Any, wishes: Wishes, session: str, *, param: str, **more: Any) -> Asked:
    """Make what is asked of the messages of a request; in a session only its end counts. Raises `ApiError`."""
    stream = bool(get(said, "stream", bool))
    given = {name: getattr(wishes, name) for name in wishes.__struct_fields__}
    if session:
        prompt = read_last(messages, param=param)
        request = ClientRequest(results=prompt.results, **given)
    else:
        earlier, prompt = read_conversation(messages, param=param)
        request = ClientRequest(is_kept=False, earlier=earlier, results=prompt.results, **given)
    return Asked(need(said, "model", str), prompt, request, session, stream, **more)


def read_tool(name: str, function: Mapping[str, Any], param: str) -> ClientTool:
    """Read the description of a tool. Raises `ApiError`."""
    if _TOOL.fullmatch(name) is None:
        refuse(f"`{param}.name` has to be letters, digits, `_` and `-`, 64 at most, a letter first.", f"{param}.name")
    description = get(function, "description", str, param) or name
    return ClientTool(name, description, get(function, "parameters", dict, param) or {})


def check_tools(tools: Sequence[ClientTool], param: str = "tools") -> tuple[ClientTool, ...]:
    """Return the tools of a request if they can be distinguished, and are not too many. Raises `ApiError`."""
    if len(tools) > MOST_TOOLS:
        refuse(f"`{param}` has more than {MOST_TOOLS} tools.", param)
    names = [tool.name for tool in tools]
    for name in names:
        if names.count(name) > 1:
            refuse(f"`{param}` has two tools of the name `{name}`.", param)
    return tuple(tools)


def read_choice(said: Any, tools: Sequence[ClientTool], name: str | None) -> str | None:
    """Read `tool_choice`; `name` is that of the tool if it names one. Raises `ApiError`."""
    if said is None:
        return None
    if isinstance(said, str):
        if said not in ("none", "auto", "required"):
            refuse("`tool_choice` has to be none, auto, required, or name a function.", "tool_choice")
        if said == "required" and not tools:
            refuse("`tool_choice` is `required`, and the request has no `tools`.", "tool_choice")
        return said
    if name is None:
        refuse("`tool_choice` has to be none, auto, required, or name a function.", "tool_choice")
    if name not in [tool.name for tool in tools]:
        refuse(f"`tool_choice` names `{name:.80}`, which is not among the `tools`.", "tool_choice")
    return name


def read_effort(effort: str | None, param: str) -> str | None:
    """Read how much the model is to think. Raises `ApiError`."""
    if effort is None:
        return None
    if effort not in _EFFORTS:
        refuse(f"`{param}` has to be one of {', '.join(_EFFORTS)}.", param)
    return _EFFORTS[effort]


def refuse_asked(said: Mapping[str, Any], refused: Mapping[str, str]) -> None:
    """Refuse fields whose meaning would be lost if they were ignored. Raises `ApiError`."""
    for name, why in refused.items():
        if said.get(name) not in (None, False, 0, [], {}, ""):
            refuse(f"`{name}` is not supported: {why}.", name, "unsupported_parameter")
