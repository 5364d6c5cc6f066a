"""How everything is: what `/healthz` says, with the last reloads, servers and workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bub.base.redis.settings import store_address
from bub.errors import BubError
from bub.framework import BubFramework
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
        "servers": list(describe_servers(studio.framework)),
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


def describe_servers(framework: BubFramework) -> Iterator[dict[str, Any]]:
    """Yield each MCP server that a profile may use: whether it runs, the tools that are known of it, why it failed."""
    found: dict[str, dict[str, Any]] = {}
    for profile in framework.generation.profiles.values():
        served = profile.served
        for spec in served.specs:
            own = sum(name.startswith(f"mcp.{spec.name}.") for name in served.tools)
            server = served.seen.get(spec.name)
            problem = server.failure if server is not None else ""
            state = "ready" if server is not None and server.is_open else "failed" if problem else "not started"
            before = found.get(spec.name)
            if before is None or before["state"] == "not started":
                found[spec.name] = {"name": spec.name, "state": state, "tools": own, "problem": problem}
    yield from found.values()
