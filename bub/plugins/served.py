"""What a profile has of its servers: how each is described, and the tools that they offer now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from bub.base.diagnostics import did_you_mean
from bub.labels import Labels
from bub.plugins.lock.facts import Lock
from bub.plugins.servers import ServerSpec
from bub.tools import Tool, ToolError

_TYPES: Mapping[str, Any] = {
    "string": str,
    "integer": int,
    "number": int | float,
    "boolean": bool,
    "array": list[Any],
    "object": dict[str, Any],
    "null": None,
}
"""What an argument of a type has to be; what else a schema says, the server itself checks."""

_ANYTHING: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}


class SeenServer(Protocol):
    """A server as who watches sees it: whether it can be called now, and why not if it failed."""

    @property
    def is_open(self) -> bool: ...

    failure: str


class Served(msgspec.Struct):
    """The servers that a profile may use, and the tools that are known of them by now, by name.

    Whoever runs the servers writes the tools, and the servers that were `seen`; they are read by whoever asks what
    there is.
    """

    specs: tuple[ServerSpec, ...] = ()
    tools: dict[str, Tool] = msgspec.field(default_factory=dict)
    seen: dict[str, SeenServer] = msgspec.field(default_factory=dict)
    lock: Lock | None = None
    """What the tools of servers have to be, if that was locked."""


class ServedTool(Tool, frozen=True):
    """A tool of a server: what it takes is said by a JSON Schema that nobody here has written."""

    def check(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Check the arguments of a call as far as the types of the schema go; numbers and booleans may come as text.

        Raises `ToolError` (`invalid_input`) that says what is wrong.
        """
        properties = self.parameters.get("properties") or {}
        if not self.parameters.get("additionalProperties", not properties):
            for name in given:
                if name not in properties:
                    advice = did_you_mean(str(name), properties) or f"it takes {', '.join(properties) or 'none'}"
                    problem = f"`{self.name}` has no argument `{name}`"
                    raise ToolError(problem, help=advice, kind="invalid_input")
        for name in self.parameters.get("required") or ():
            if name not in given:
                raise ToolError(f"`{self.name}` needs `{name}`", help=self.usage, kind="invalid_input")
        return {name: self._convert(name, value, properties.get(name)) for name, value in given.items()}

    def _convert(self, name: str, value: Any, schema: Any) -> Any:
        stated = schema.get("type") if isinstance(schema, Mapping) else None
        wanted = _TYPES.get(stated) if isinstance(stated, str) else None
        if wanted is None:
            return value
        try:
            return msgspec.convert(value, wanted, strict=not isinstance(value, str) or stated == "string")
        except msgspec.ValidationError as error:
            problem = f"the arguments do not fit `{self.name}`: {error} for `{name}`"
            raise ToolError(problem, help=self.usage, kind="invalid_input") from None


def make_tool(
    name: str, description: str, schema: Mapping[str, Any], function: Callable[..., Any], labels: Labels | None = None
) -> ServedTool:
    """Make a tool of a server of an `async` function that is called with the arguments by their names."""
    fields = [(one, Any, None) for one in schema.get("properties") or {} if one.isidentifier()]
    try:
        arguments = msgspec.defstruct("arguments", fields, kw_only=True)
    except (TypeError, ValueError):  # such as a keyword of Python
        arguments = msgspec.defstruct("arguments", [])
    return ServedTool(name, description, function, arguments, schema, labels=labels)


def stand_in(name: str) -> ServedTool:
    """Make a tool in the place of one that nobody knows, which takes anything and does nothing."""

    async def answer(**arguments: Any) -> None:
        """Do nothing."""

    return make_tool(name, "A tool of a server.", _ANYTHING, answer)
