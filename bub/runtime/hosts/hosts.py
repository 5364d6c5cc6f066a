"""The hosts of one runtime, and how long each lives."""

from __future__ import annotations

import trio

from bub.plugins.finding import ListedPlugin
from bub.plugins.plugin_set import Host
from bub.runtime.hosts import late


class Hosts:
    """Opens what plugins run on that do not run where Bub does.

    A plugin with a `path` is a new module each time it is loaded, so it has a host of its own, which ends with its
    generation. The modules of a package are imported once, and what they keep, such as a lock of asyncio or a client's
    connections, belongs to one loop: such a plugin has one host in all profiles, which ends with the runtime.
    """

    def __init__(self) -> None:
        self._kept: dict[str, late.IslandHost] = {}

    def open(self, listed: ListedPlugin) -> Host:
        """What a plugin runs on; nothing is started before the plugin is called."""
        if listed.file is not None:
            return late.IslandHost(listed.name)
        if listed.name not in self._kept:
            self._kept[listed.name] = late.IslandHost(listed.name)
        return late.SharedHost(self._kept[listed.name])

    async def close(self) -> None:
        """End the hosts of packages, all at once; one begins again if its plugin is called."""
        async with trio.open_nursery() as closing:
            for host in self._kept.values():
                closing.start_soon(host.close)
