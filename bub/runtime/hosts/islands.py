"""What a plugin with `runtime: asyncio` runs on: its island, and what is made of the values that cross."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from bub.channels.islands import IslandChannel
from bub.envelope import Envelope
from bub.hooks.islands import as_seen_here, as_seen_there, lend_lifespan, move
from bub.hookspecs import MessageHandler
from bub.island.island import Island
from bub.plugins.islands import IslandBus, IslandFramework, tool_from
from bub.tape.islands import store_from
from bub.tools import Tool


class IslandHost:
    """Lets one plugin run on an island of its own; nothing is opened before the plugin is called."""

    loop = "asyncio"

    def __init__(self, plugin: str) -> None:
        self.island = Island(plugin)

    def show(self, framework: object) -> object:
        """The framework as the plugin sees it."""
        return IslandFramework(self.island, framework)

    def move(self, hook: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """An implementation of the plugin as Bub calls it: it runs on the island."""
        return move(hook, function, self.island, self)

    def bring_in(self, hook: str, value: Any) -> Any:
        """An argument of an implementation, as the plugin gets it."""
        if hook == "provide_channels" and callable(value):
            return self.island.back(functools.partial(_hand_over, self.island, value))
        return as_seen_there(self.island, value)

    def bring_out(self, hook: str, value: Any) -> Any:
        """What an implementation returned, as Bub gets it."""
        if hook == "provide_tape_store" and value is not None:
            return store_from(self.island, value)
        if hook == "provide_bus" and value is not None:
            return IslandBus(self.island, value)
        if hook == "provide_channels" and isinstance(value, list | tuple):
            return [IslandChannel(self.island, channel) for channel in value]
        if hook == "provide_tools" and isinstance(value, list | tuple):
            return [tool_from(self.island, tool) if isinstance(tool, Tool) else tool for tool in value]
        return as_seen_here(self.island, value)

    async def close(self) -> None:
        """End the loop, in bounded time; it is opened again if something is called."""
        await self.island.close()

    def leave(self) -> None:
        """Begin to end the loop, and wait for nothing."""
        self.island.leave()

    @property
    def problem(self) -> str | None:
        """The place at which the plugin blocks its loop, for people; None if it does not."""
        place = self.island.blocked_at
        return f"blocks its asyncio loop at {place}" if place is not None else None


class SharedHost(IslandHost):
    """The host of a package's plugin, as one profile of one generation has it: it goes on when these end."""

    def __init__(self, host: IslandHost) -> None:
        self.island = host.island

    async def close(self) -> None:
        """End nothing: other profiles and generations run there, too."""

    def leave(self) -> None:
        """End nothing."""


async def _hand_over(island: Island, handler: MessageHandler, message: Envelope) -> bool | None:
    return await handler(lend_lifespan(island, message))
