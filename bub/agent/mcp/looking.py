"""Using servers outside of a turn: each is started, asked, and ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import trio

from bub.agent.mcp.errors import ServerError
from bub.agent.mcp.servers import open_servers
from bub.errors import BubError
from bub.plugins.lock.facts import ToolFacts
from bub.plugins.servers import ServerSpec
from bub.tools import Tool, ToolError, ToolResult


class Seen(msgspec.Struct, frozen=True):
    """What a server offers; `problem` says why it could not be asked, `help` what to do then."""

    spec: ServerSpec
    tools: Mapping[str, Tool] = msgspec.field(default_factory=dict)
    facts: Mapping[str, ToolFacts] = msgspec.field(default_factory=dict)
    problems: tuple[str, ...] = ()
    problem: str = ""
    help: str | None = None

    def require(self) -> Seen:
        """Raise `BubError` if it could not be asked."""
        if self.problem:
            raise BubError(f"the server `{self.spec.name}`: {self.problem}", help=self.help)
        return self


async def look_at_servers(specs: Iterable[ServerSpec], folder: Path) -> list[Seen]:
    """Start servers in a folder, all at once, and return what each offers, in their order."""
    asked = list(specs)
    found: dict[int, Seen] = {}  # two profiles may call different servers alike

    async def look(number: int, spec: ServerSpec) -> None:
        try:
            connection = await servers.find(spec, folder)
            await connection.open()
            offered = connection.offered
            found[number] = Seen(spec, offered.tools, offered.facts, offered.problems)
        except ServerError as error:
            found[number] = Seen(spec, problem=str(error), help=error.help)

    async with open_servers() as servers, trio.open_nursery() as nursery:
        for number, spec in enumerate(asked):
            nursery.start_soon(look, number, spec)
    return [found[number] for number in range(len(asked))]


async def call_server(spec: ServerSpec, folder: Path, name: str, arguments: Mapping[str, Any]) -> ToolResult:
    """Start a server and call one tool by its name here. Raises `BubError`."""
    async with open_servers() as servers:
        connection = await servers.find(spec, folder)
        try:
            await connection.open()
        except ServerError as error:
            raise BubError(f"the server `{spec.name}`: {error}", help=error.help) from None
        found: Tool | None = connection.offered.tools.get(name)
        if found is None:
            known = ", ".join(connection.offered.tools) or "none"
            raise BubError(f"the server `{spec.name}` has no tool `{name}`", help=f"there are {known}")
        try:
            result: ToolResult = await found.function(**found.check(arguments))
        except ToolError as error:
            raise BubError(BubError.__str__(error), help=error.help) from None
        return result
