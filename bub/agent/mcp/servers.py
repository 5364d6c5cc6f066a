"""The servers of a runtime: each is started once, when the first turn needs it, and closed with the runtime."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from bub.agent import late
from bub.agent.mcp.errors import ServerError
from bub.agent.tools.guard import Guard
from bub.plugins.served import Served
from bub.plugins.servers import ServerSpec
from bub.plugins.view import ProfileView
from bub.tools import ToolPolicy

NOT_INSTALLED = "the package `mcp` is not installed"
INSTALL = "run `pip install 'bub-pipelines[mcp]'`"


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
                nursery.start_soon(self._offer_one, spec, framework.workspace, served, troubles)
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
        """Close all servers, also where that is cancelled."""
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                for connection in self._connections:
                    nursery.start_soon(connection.close)
        self._connections.clear()
        self._guard.close()

    async def _offer_one(self, spec: ServerSpec, folder: Path, served: Served, troubles: list[str]) -> None:
        why, connection = "", None
        try:
            connection = await self.find(spec, folder)
            if connection.is_open or not connection.offered.tools:
                with trio.move_on_after(max(connection.patience, 0.0)) as waiting:
                    await connection.open()
                if waiting.cancelled_caught:
                    why = "it is not ready yet, and this turn does not wait for it"
        except ServerError as error:
            why = f"{error} ({error.help})" if error.help else str(error)
        known = connection.offered if connection is not None else None
        told = [why] if why else []
        told += known.problems if known is not None else ()
        troubles += [f"the server `{spec.name}`: {one}" for one in told]
        own = f"mcp.{spec.name}."
        for name in [name for name in served.tools if name.startswith(own)]:
            del served.tools[name]
        served.tools.update(known.tools if known is not None else {})

    async def _load(self) -> tuple[Any, Any]:
        """Import what talks to servers, in a thread: that takes most of a second."""
        async with self._loading:
            try:
                return await trio.to_thread.run_sync(_import)
            except ImportError:
                raise ServerError(NOT_INSTALLED, help=INSTALL) from None

    async def _close_forgotten(self) -> None:
        """Close servers that no profile describes any more as they are; a turn under way that needs one starts it."""
        kept = [spec for specs in self._wanted.values() for spec in specs]
        gone = [one for one in self._connections if one.spec not in kept]
        for connection in gone:
            self._connections.remove(connection)
            await connection.close()


def _import() -> tuple[Any, Any]:
    return late.Connection, late.Surroundings


@asynccontextmanager
async def open_servers() -> AsyncIterator[Servers]:
    """The servers of a runtime, all of which are closed with this."""
    servers = Servers()
    try:
        yield servers
    finally:
        await servers.close()
