"""How everything is: what `/healthz` says, with the last reloads, servers and workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bub.base.redis.settings import store_address
from bub.errors import BubError
from bub.inbox.shared.opening import overview_of
from bub.pipeline.report.reloads import Reload
from bub.pipeline.report.report import render_text
from bub.studio.requests import Asked
from bub.studio.studio import Studio


async def describe_health(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Describe channels, plugins, reloads, schedules, MCP servers and the workers of a cluster."""
    said = dict(studio.around.describe_health())
    said.pop("reload", None)
    return {
        "channels": {},
        "plugins": {},
        "schedules": {},
        **said,
        "reloads": [_describe_reload(reload) for reload in reversed(studio.around.reloads)],
        "servers": list(_servers(studio)),
        "workers": await _list_workers(studio),
    }


async def _list_workers(studio: Studio) -> list[dict[str, Any]]:
    """List the gateways that share a store with this one, if it has such a store and that answers."""
    address = store_address(studio.framework.settings)
    if address is None:
        return []
    try:
        overview = await overview_of(address, studio.framework.workspace)
    except BubError as error:
        return [{"name": address.shown, "state": "away", "problem": str(error)}]
    return [
        {
            "name": one.name,
            "state": "draining" if one.is_draining else "running",
            "roles": one.roles,
            "version": one.version,
            "partitions": overview.partitions_of(one.name),
            "channels": overview.channels_of(one.name),
            "turns": one.turns,
        }
        for one in overview.workers
    ]


def _describe_reload(reload: Reload) -> dict[str, Any]:
    """Describe a reload with its findings as `bub validate` prints them."""
    shown = [render_text([one], reload.sources, color=False) for one in reload.diagnostics]
    return {"at": reload.at, "outcome": reload.outcome, "findings": shown or reload.findings}


def _servers(studio: Studio) -> Iterator[dict[str, Any]]:
    """Yield each MCP server that a profile may use, with the tools that are known of it by now."""
    found: dict[str, int] = {}
    for profile in studio.framework.generation.profiles.values():
        for spec in profile.served.specs:
            own = sum(name.startswith(f"mcp.{spec.name}.") for name in profile.served.tools)
            found[spec.name] = max(found.get(spec.name, 0), own)
    for name, tools in found.items():
        yield {"name": name, "state": "ready" if tools else "not started", "tools": tools, "problem": ""}
