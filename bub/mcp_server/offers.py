"""What a client can call: one tool for a whole turn, and each tool that the profile gives to a model."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
from mcp.types import Tool as McpTool
from mcp.types import ToolAnnotations

from bub.agent.models.names import ToolNames
from bub.agent.models.request import ChatRequest, ToolSpec
from bub.base.json_schema import schema_of
from bub.plugins.shipped import DESCRIBE
from bub.tools import Tool, ToolBox

TURN = "ask-agent"
"""The tool that is a whole turn; no tool of Bub can have a name with a hyphen."""


OF_AGENTS = frozenset({DESCRIBE, "subagent"})
"""Tools that only help an agent in the middle of a turn; a client has the turn tool, and reads whole schemas."""


class TurnInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the turn tool takes."""

    message: str
    session: str = ""


class TurnOutput(msgspec.Struct, frozen=True):
    """The result of a turn, for programs: `ended_by` is "" for one that ran to its end."""

    session_id: str
    profile: str
    reply: str
    ended_by: str = ""
    cut: str = ""


_WHAT = (
    "Ask the agent of this folder: it works on the message with its own model, tools and rules, and returns its reply. "
    "It remembers the conversation of a session; without `session` all calls of this connection share one."
)


class Offers:
    """The tools of a profile, by the names that clients call them: `fs.read` is `fs_read` there, as for a model."""

    def __init__(self, box: ToolBox) -> None:
        box = box.for_model()
        tools = [box.tools[name] for name in box.usable() if name not in OF_AGENTS]
        names = ToolNames(ChatRequest([], tools=[ToolSpec(one.name, "", {}) for one in tools]))
        self._tools: Mapping[str, Tool] = MappingProxyType({names.wire(one.name): one for one in tools})

    def find(self, name: str) -> Tool | None:
        """The tool that a client means, by the name in the list or by its own, such as `fs.read`; None for no tool."""
        return self._tools.get(name) or next((one for one in self._tools.values() if one.name == name), None)

    def listed(self) -> list[McpTool]:
        """All that a client can call."""
        return [_turn_tool(), *(_describe_tool(name, tool) for name, tool in self._tools.items())]


def _turn_tool() -> McpTool:
    schema = schema_of(TurnInput)
    schema["properties"]["session"]["description"] = "A name of your own for the conversation, to go on with it later."
    return McpTool(
        name=TURN,
        title="Ask the agent",
        description=_WHAT,
        input_schema=schema,
        output_schema=schema_of(TurnOutput),
        annotations=ToolAnnotations(read_only_hint=False),
    )


def _describe_tool(name: str, tool: Tool) -> McpTool:
    labels = tool.assumed_labels
    hints = ToolAnnotations(read_only_hint=tool.read_only, open_world_hint=bool(labels.reaches or labels.brings))
    return McpTool(
        name=name,
        title=tool.name,
        description=tool.description,
        input_schema={"type": "object", **tool.parameters},
        annotations=hints,
    )
