"""What a plugin with `runtime: asyncio` runs on: its island, and what is made of the values that cross."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bub.hooks.islands import as_seen_here, as_seen_there, move
from bub.island.island import Island


class IslandHost:
    """Lets one plugin run on an island of its own; nothing is opened before the plugin is called."""

    def __init__(self, plugin: str) -> None:
        self.island = Island(plugin)

    def show(self, framework: object) -> object:
        """The framework as the plugin sees it."""
        return framework

    def move(self, hook: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """An implementation of the plugin as Bub calls it: it runs on the island."""
        return move(hook, function, self.island, self)

    def bring_in(self, hook: str, value: Any) -> Any:
        """An argument of an implementation, as the plugin gets it."""
        return as_seen_there(self.island, value)

    def bring_out(self, hook: str, value: Any) -> Any:
        """What an implementation returned, as Bub gets it."""
        return as_seen_here(self.island, value)

    async def close(self) -> None:
        """End the loop, in bounded time; it is opened again if something is called."""
        await self.island.close()

    def leave(self) -> None:
        """Begin to end the loop, and wait for nothing."""
        self.island.leave()

    @property
    def problem(self) -> str | None:
        """Where the plugin blocks its loop, for people; None if it does not."""
        place = self.island.blocked_at
        return f"blocks its asyncio loop at {place}" if place is not None else None
