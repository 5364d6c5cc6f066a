"""A framework for one test: everything as in a run, but for the stages and hook points that are mocked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bub.framework import BubFramework
from bub.hookspecs import hookimpl
from bub.pipeline.compiler import StandIn
from bub.pipeline.compiler import compile as compile_graph
from bub.pipeline.graph import Graph
from bub.pipeline.merge import Document
from bub.pipeline.plan import Plan
from bub.pipeline.routes import Route
from bub.plugins import PluginSet
from bub.scopes import Scope

WITNESS = "bub test"
"""The name of what is told of every failure; no plugin can bear it."""


class Rehearsal(BubFramework):
    """A framework over a file that was read already, with `mocks` in place of what they are named for.

    With a profile of its `own`, a message goes there whatever the routes say. `told` is what `on_error` was told.
    """

    def __init__(
        self,
        document: Document,
        mocks: Mapping[str, StandIn],
        *,
        own: str | None,
        start: str | None,
        workspace: Path,
    ) -> None:
        super().__init__(document.file, profile=own or start, workspace=workspace)
        self.told: list[tuple[str, Exception]] = []
        self._document = document
        self._mocks = mocks
        self._routed = own is None

    @contextmanager
    def loaded(self) -> Iterator[Rehearsal]:
        """Load as a run does; the modules of plugins with a `path` are forgotten when the block is left."""
        try:
            self.load_hooks()
            yield self
        finally:
            self._generation.forget_modules()

    @property
    def modules(self) -> frozenset[str]:
        """The names of the modules of plugins with a `path`."""
        return frozenset(name for plugins in self._generation.plugins for name in plugins.modules)

    @property
    def all_settings(self) -> Mapping[str, Mapping[str, Any]]:
        """The settings of every profile that is loaded, by profile."""
        return self._generation.settings

    async def _open_tape_store(self, scope: Scope) -> None:
        """None: a test leaves no trace on the tapes of the person who runs it."""

    def _read(self, environ: Mapping[str, str]) -> Document:
        return self._document

    def _routes(self, document: Document, environment: Mapping[str, str]) -> tuple[Route, ...]:
        return super()._routes(document, environment) if self._routed else ()

    def _compile(self, plan: Plan, plugins: PluginSet) -> Graph:
        plugins.manager.register(_Witness(self.told), WITNESS)
        return compile_graph(plan, plugins, self._mocks)


class _Witness:
    """Keeps every failure that is told, also those that the pipeline goes on without."""

    def __init__(self, told: list[tuple[str, Exception]]) -> None:
        self._told = told

    @hookimpl
    def on_error(self, stage: str, error: Exception) -> None:
        self._told.append((stage, error))
