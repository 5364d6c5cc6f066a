"""Rules that the model is told, and that everybody can read with `,rules`."""

from __future__ import annotations

import bub
from bub import BubFramework, Settings, hookimpl
from bub.tools import Tool, ToolContext


class HouseRules(Settings, section="house_rules"):
    text: str


@bub.tool(read_only=True, for_people=True)
def rules(*, context: ToolContext) -> str:
    """Show the rules of this chat."""
    return str(context.settings["house_rules"]["text"])


class Plugin:
    def __init__(self, framework: BubFramework) -> None:
        self._rules = HouseRules.of(framework)

    @hookimpl
    def system_prompt(self) -> str:
        """A part of the system prompt of each turn."""
        return f"The rules of this chat, which go before all that is asked of you:\n{self._rules.text}"

    @hookimpl
    def provide_tools(self) -> list[Tool]:
        return [rules]


plugin = Plugin
