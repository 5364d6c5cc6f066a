"""Graphs of pipelines given as text, with plugins that are objects of the test, and turns run on them alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pluggy

from bub.hookspecs import BUB_HOOK_NAMESPACE
from bub.pipeline.run.compiler import compile as compile_graph
from bub.pipeline.run.compiler import plan_for
from bub.pipeline.run.graph import Graph
from bub.pipeline.run.turn import Turn
from bub.pipeline.source.merge import load_text
from bub.plugins.plugin_set import LoadedPlugin, PluginSet


def plugin_set(**plugins: object) -> PluginSet:
    """The plugins as if a profile had listed them, lowest priority first."""
    manager = pluggy.PluginManager(BUB_HOOK_NAMESPACE)
    for name, plugin in plugins.items():
        manager.register(plugin, name)
    loaded = tuple(LoadedPlugin(name, plugin, "a test") for name, plugin in plugins.items())
    return PluginSet(manager, loaded, (), (), ())


def graph_of(
    text: str, /, *, profile: str = "default", environment: Mapping[str, str] | None = None, **plugins: object
) -> Graph:
    """The compiled pipeline of a text without its `version`; raises `PipelineError` as the framework does."""
    plan = plan_for(load_text(f"version: 1\n{text}"), profile, environment or {})
    return compile_graph(plan, plugin_set(**plugins))


class WholeTurn(Turn):
    """A turn that waits for nothing: every session is a new one, and free."""

    async def run(self) -> None:
        """Arrive, and answer."""
        await self.arrive()
        if self.ended_by is None:
            await self.answer("new")


def turn_on(graph: Graph, **message: Any) -> WholeTurn:
    """A turn that has not begun."""
    inbound = {"channel": "cli", "chat_id": "local", "content": "hello", **message}
    return WholeTurn(graph, {"message": inbound, "inbound": inbound, "profile": graph.profile, "workspace": Path()})
