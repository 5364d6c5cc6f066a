"""The servers of a runtime: each is started once, when the first turn needs it, and closed with the runtime."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from bub.agent import late
from bub.agent.mcp.errors import ServerError
from bub.agent.tools.guard import Guard
from bub.base.installing.extras import install_command
from bub.plugins.lock.drift import compare_server
from bub.plugins.lock.facts import ToolFacts
from bub.plugins.served import Served
from bub.plugins.servers import ServerSpec
from bub.plugins.shipped import SERVED
from bub.plugins.view import ProfileView
from bub.tools import Tool, ToolPolicy

NOT_INSTALLED = "the package `mcp` is not installed"


class Servers:
    """All servers that run. What two profiles describe alike is one server, which keeps both apart in nothing."""

    def __init__(self) -> None:
        self._guard = Guard()
        self._connections: list[Any] = []
        self._wanted: dict[str, tuple[ServerSpec, ...]] = {}
        self._loading = trio.Lock()

    async def offer(self, framework: ProfileView, policy: ToolPolicy) -> list[str]:
        """Write the tools of the servers that a turn may use into what the profile has; return what is wrong with some.

        Servers whose tools are not known are waited for, in bounded time. One that was open before and is not any more
        is started again by the call that needs it.
        """
        served = framework.served
        wanted = [spec for spec in served.specs if policy.wants(spec.name)]
        self._wanted[framework.profile] = served.specs
        await self._close_forgotten()
        troubles: list[str] = []
        async with trio.open_nursery() as nursery:
            for spec in wanted:
                nursery.start_soon(self._offer_one, spec, framework.workspace, framework.profile, served, troubles)
        return [framework.mask.text(trouble) for trouble in troubles]

    async def find(self, spec: ServerSpec, folder: Path) -> Any:
        """Return the connection to a server, which may not be open. Raises `ServerError` if there cannot be one."""
        known = next((one for one in self._connections if one.spec == spec), None)
        if known is None:
            make, surroundings = await self._load()
            known = next((one for one in self._connections if one.spec == spec), None)
            if known is None:
                known = make(spec, surroundings(folder, dict(os.environ), self._guard))
                self._connections.append(known)
        return known

    async def close(self) -> None:
        """Close all servers, also if that is cancelled."""
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                for connection in self._connections:
                    nursery.start_soon(connection.close)
        self._connections.clear()
        self._guard.close()

    async def _offer_one(
        self, spec: ServerSpec, folder: Path, profile: str, served: Served, troubles: list[str]
    ) -> None:
        why, connection = "", None
        try:
            connection = served.seen[spec.name] = await self.find(spec, folder)
            if connection.is_open or not connection.offered.tools:
                with trio.move_on_after(max(connection.patience, 0.0)) as waiting:
                    await connection.open()
                if waiting.cancelled_caught:
                    why = "it is not ready yet, and this turn does not wait for it"
        except ServerError as error:
            why = f"{error} ({error.help})" if error.help else str(error)
        tools: dict[str, Tool] = {}
        told = [why] if why else []
        if connection is not None:
            tools = dict(connection.offered.tools)
            told += connection.offered.problems
            told += _leave_out_drifted(spec.name, profile, served, tools, connection.offered.facts)
        troubles += [f"the server `{spec.name}`: {one}" for one in told]
        own = f"{SERVED}{spec.name}."
        for name in [name for name in served.tools if name.startswith(own)]:
            del served.tools[name]
        served.tools.update(tools)

    async def _load(self) -> tuple[Any, Any]:
        """Import what talks to servers, in a thread: that takes most of a second."""
        async with self._loading:
            try:
                return await trio.to_thread.run_sync(_import)
            except ImportError:
                raise ServerError(NOT_INSTALLED, help=f"run `{install_command('mcp')}`") from None

    async def _close_forgotten(self) -> None:
        """Close servers that no profile describes any more as they are; a turn under way that needs one starts it."""
        kept = [spec for specs in self._wanted.values() for spec in specs]
        gone = [one for one in self._connections if one.spec not in kept]
        for connection in gone:
            self._connections.remove(connection)
            await connection.close()


def _import() -> tuple[Any, Any]:
    return late.Connection, late.Surroundings


def _leave_out_drifted(
    server: str, profile: str, served: Served, tools: dict[str, Tool], facts: Mapping[str, ToolFacts]
) -> list[str]:
    """Take out the tools that are not what the lock says, and tell of each."""
    if served.lock is None or not facts:
        return []
    drifts = compare_server(server, served.lock.server(server, profile), facts)
    for drift in drifts:
        tools.pop(f"{SERVED}{server}.{drift.tool}", None)
    return [f"it differs from the lock, so Bub does not offer this: {drift.line}" for drift in drifts]


@asynccontextmanager
async def open_servers() -> AsyncIterator[Servers]:
    """The servers of a runtime, all of which are closed with this."""
    servers = Servers()
    try:
        yield servers
    finally:
        await servers.close()
