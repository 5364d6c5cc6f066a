"""What the model reads about the tools: all there is to know, or a line each of those that would fill its window."""

from __future__ import annotations

from collections.abc import Sequence

from bub.agent.calls.program import ProgramTool
from bub.agent.models.request import ToolSpec
from bub.agent.window.measure import tokens_of_tools
from bub.plugins.shipped import DESCRIBE, SHIPPED_TOOLS
from bub.tools import Tool

WHOLE = 3_000
"""How many tokens of whole definitions the model gets in any window."""

_MOST = 20_000
"""How many tokens of whole definitions the model gets at most."""

_LONGEST_LINE = 200
_ANYTHING = {"type": "object", "properties": {}, "additionalProperties": True}


def offer(tools: Sequence[Tool], window: int | None) -> list[ToolSpec]:
    """Return what the model reads of tools, in order: definitions up to a quarter of the `window`, a line of the rest.

    Bub's own tools come first among the whole ones. The tool `DESCRIBE`, which gives the rest, is offered only then;
    without it all definitions are whole. Those of the program that asks, which `DESCRIBE` does not know, are whole too.
    """
    others = [tool for tool in tools if tool.name != DESCRIBE]
    if len(others) == len(tools):
        return [_whole(tool) for tool in tools]
    room = _MOST if window is None else min(max(window // 4, WHOLE), _MOST)
    if tokens_of_tools(list(map(_whole, others))) <= room:
        return [_whole(tool) for tool in others]
    told: set[str] = set()
    told.update(tool.name for tool in tools if isinstance(tool, ProgramTool))
    for tool in sorted(tools, key=lambda tool: (tool.name != DESCRIBE, tool.name not in SHIPPED_TOOLS)):
        size = tokens_of_tools([_whole(tool)])
        if size <= room:
            room -= size
            told.add(tool.name)
    return [_whole(tool) if tool.name in told else _in_a_line(tool) for tool in tools]


def _whole(tool: Tool) -> ToolSpec:
    return ToolSpec(tool.name, tool.description, tool.parameters)


def _in_a_line(tool: Tool) -> ToolSpec:
    line = f"{tool.summary:.{_LONGEST_LINE}} ({DESCRIBE} tells what it takes)"
    return ToolSpec(tool.name, line, _ANYTHING)
