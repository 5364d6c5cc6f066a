"""The page of a runtime that runs for it alone: `bub studio`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import trio

from bub import __version__
from bub.framework import BubFramework
from bub.studio.serving import StudioServer
from bub.studio.settings import StudioSettings, read_settings
from bub.studio.studio import PastReload


class Alone:
    """What the page sees around a runtime that no gateway serves."""

    is_gateway = False
    channels: Sequence[str] = ()
    reloads: Sequence[PastReload] = ()

    def __init__(self, framework: BubFramework) -> None:
        self._framework = framework

    def describe_health(self) -> Mapping[str, Any]:
        """Describe what can go wrong here: plugins."""
        problems = self._framework.plugin_problems
        return {"status": "degraded" if problems else "ok", "version": __version__, "plugins": problems}


async def serve_alone(
    framework: BubFramework, *, listen: str | None, write: bool, announce: Callable[[str], None]
) -> None:
    """Run a framework with its page until cancelled; `announce` is told the address with the token.

    Raises `UsageError` for settings that contradict themselves, `BubError` if the port cannot be had.
    """
    settings = studio_settings(framework, listen=listen, write=write)
    async with framework.running(), trio.open_nursery() as tasks:
        server = StudioServer(framework, settings, Alone(framework))
        announce(await tasks.start(server.serve))


def studio_settings(framework: BubFramework, *, listen: str | None = None, write: bool = False) -> StudioSettings:
    """Return how the page of a framework is to be served; paths are below the folder of its file."""
    gateway = framework.settings.get("gateway")
    section = gateway.get("studio") if isinstance(gateway, Mapping) else None
    file = framework.pipeline_file
    folder = file.parent if file is not None else framework.workspace
    return read_settings(section, folder, listen=listen, write=write)
