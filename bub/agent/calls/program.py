"""The tools of the program that asks: offered beside those of the profile, and run by that program.

A call of one is judged as any other, and then handed back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from bub.base.clients.request import NO_TOOL_CHOICE, ClientRequest, ClientTool
from bub.errors import UsageError
from bub.labels import Labels
from bub.tools import Tool, ToolBox, ToolError

WHAT = "a tool of the program that asks"

_LABELS = Labels(brings="untrusted")
"""What it is called with goes to who asked, as an answer does; who wrote what it gives, nobody says."""


class _Anything(msgspec.Struct):
    """The arguments of a tool whose program checks them itself."""


class ProgramTool(Tool, frozen=True):
    """A tool that the program runs: the model calls it, and the call ends the turn."""

    @classmethod
    def of(cls, given: ClientTool) -> ProgramTool:
        """Make the tool that a program describes."""
        parameters = given.parameters or {"type": "object", "properties": {}}
        return cls(given.name, given.description, _refuse, _Anything, parameters, read_only=True, labels=_LABELS)

    def check(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Give the arguments as they are: their program knows what it takes."""
        return dict(given)


class ProgramBox(ToolBox, frozen=True):
    """The tools of a profile, and beside them those of the `program` that asks; sub-agents do not have these."""

    program: Mapping[str, ProgramTool] = {}

    @classmethod
    def of(cls, box: ToolBox, request: ClientRequest | None) -> ToolBox:
        """Put the tools of a request beside those of a profile, if it brings any."""
        if request is None or not request.tools or request.tool_choice == NO_TOOL_CHOICE:
            return box
        return cls(box.tools, box.policy, {tool.name: ProgramTool.of(tool) for tool in request.tools})

    def find(self, name: str) -> Tool:
        """Find the tool of exactly this name, one of the program if it has such a one. Raises `ToolError`."""
        found = self.program.get(name)
        if found is None:
            return super().find(name)
        if not self._permits(found):
            raise ToolError(f"the tool `{name}` is not allowed here", kind="denied")
        return found

    def usable(self) -> list[str]:
        """List the names of all tools that may be used, sorted; one of the program may be unless its name is denied."""
        return sorted([*super().usable(), *(name for name, tool in self.program.items() if self._permits(tool))])

    def narrow(self, names: Sequence[str] | None, *, without: Iterable[str] = ()) -> ToolBox:
        """Make a box for a sub-agent, of the profile's tools: nobody hands calls of the others back for it."""
        return ToolBox(self.tools, self.policy).narrow(names, without=without)

    def _permits(self, tool: ProgramTool) -> bool:
        return replace(self.policy, allow=(tool.name,)).permits(tool)


def refuse_names(tools: Iterable[ClientTool], own: Iterable[str]) -> None:
    """Raise `UsageError` if a program brings a tool that the profile has: a model could not tell them apart."""
    known = {_as_models_write(name): name for name in own}
    for tool in tools:
        found = known.get(_as_models_write(tool.name))
        if found is not None:
            raise UsageError(
                f"the tool `{tool.name}` cannot be offered: the profile has `{found}`", help="give yours another name"
            )


def _as_models_write(name: str) -> str:
    return name.lower().replace(".", "_")


def _refuse() -> None:
    raise ToolError("the program that asks runs this tool")
