"""Tools of the reference as Bub calls them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from bub.plugins.shipped import SHIPPED_TOOLS
from bub.tools import Tool as OurTool
from bub.tools import ToolContext as OurContext
from bub.tools import ToolError
from bub_reference.bridge.stores import OneTape
from bub_reference.errors import BubError
from bub_reference.store import AsyncTapeStoreAdapter, InMemoryTapeStore
from bub_reference.tape import Tape
from bub_reference.tools import Tool, ToolContext

MakeState = Callable[[OurContext], dict[str, Any]]


class AdoptedTool(OurTool, frozen=True):
    """A tool whose function knows itself what it takes for an argument that is left out."""

    def check(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Check the names of the arguments; what they may be, pydantic checks when it is called."""
        return {name: value for name, value in super().check(given).items() if name in given}


def to_bub(tool: Tool, within: Callable[[], AbstractContextManager[Any]], state_of: MakeState) -> OurTool:
    """A tool of a plugin as Bub offers it; one that is not for the agent's use is a command for people.

    One that is called as a tool of Bub's own gets `_plugin`: a rule that names Bub's tool does not mean it.
    """
    properties = tool.parameters.get("properties") or {}
    required = tool.parameters.get("required") or ()

    async def run(*, context: OurContext, **arguments: Any) -> Any:
        if tool.context:
            arguments["context"] = ToolContext(_tape_of(context), context.call_id or None, state_of(context))
        with within():
            try:
                result = tool.run(**arguments)
                return await result if inspect.isawaitable(result) else result
            except BubError as error:
                raise ToolError(error.message) from error

    run.__module__ = tool.handler.__module__
    name = f"{tool.name}_plugin" if tool.name in SHIPPED_TOOLS else tool.name
    return AdoptedTool(
        name=name,
        description=tool.description or name,
        function=run,
        arguments=_struct_of(name, properties, required),
        parameters=dict(tool.parameters) or {"type": "object", "properties": {}},
        for_people=not tool.agent_use,
        takes_context=True,
    )


def _struct_of(name: str, properties: Mapping[str, Any], required: Any) -> type[msgspec.Struct]:
    """The names of a tool's arguments; what they may be, its own function checks."""
    fields: list[Any] = [
        (field, Any) if field in required else (field, Any, msgspec.UNSET)
        for field in properties
        if field.isidentifier()
    ]
    return msgspec.defstruct(name.replace(".", "_"), fields, kw_only=True, forbid_unknown_fields=True)


def _tape_of(context: OurContext) -> Tape:
    """The session's tape; one that forgets, if nobody keeps it."""
    if context.tape is None:
        return Tape(context.session_id, AsyncTapeStoreAdapter(InMemoryTapeStore()))
    return Tape(context.tape.name, OneTape(context.tape))
