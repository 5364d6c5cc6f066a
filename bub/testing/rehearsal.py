"""A runtime for one test: everything as in a run, except the stages and hook points that are mocked."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bub.base.diagnostics import did_you_mean
from bub.envelope import Envelope
from bub.errors import BubError
from bub.framework import TurnResult, load_pipeline
from bub.hookspecs import hookimpl
from bub.pipeline.plan.plan import Plan
from bub.pipeline.run.compiler import Recast, as_they_are
from bub.pipeline.run.state import OnEvent
from bub.pipeline.source.merge import DEFAULT_PROFILE, Document
from bub.plugins.shipped import SERVED
from bub.runtime.hosts.hosts import Hosts
from bub.runtime.runtime import Runtime
from bub.runtime.snapshot import Snapshot
from bub.testing.mocks import Mocks
from bub.testing.tapes import MemoryTapeStore

WITNESS = "bub test"
"""The name of what gets every failure; no plugin can bear it."""


class Rehearsal:
    """A runtime over a file that was read already, with `mocks` in place of what they are named for.

    With a profile of its `own`, a message goes there whatever the routes say. `told` is what `on_error` got.
    `recast` makes others of all implementations, and a `witness` of another class hears and says more.
    """

    def __init__(
        self,
        document: Document,
        mocks: Mocks,
        *,
        own: str | None,
        start: str | None,
        workspace: Path,
        recast: Recast = as_they_are,
        witness: type[Witness] | None = None,
    ) -> None:
        self.told: list[tuple[str, Exception]] = []
        self._mocked_tools = mocks.tools.keys()
        self.profile = own or start or os.environ.get("BUB_PROFILE") or DEFAULT_PROFILE
        hosts = Hosts()
        load = partial(
            load_pipeline,
            profile=self.profile,
            workspace=workspace,
            environ=dict(os.environ),
            routed=own is None,
            mocks=mocks.points,
            mocked_tools={name: mock.as_tool for name, mock in mocks.tools.items()},
            witnesses={WITNESS: (witness or Witness)(self.told)},
            recast=recast,
            serves=False,
            hosts=hosts,
        )
        self._runtime = Runtime(workspace, read=lambda: document, load=load, hosts=hosts)

    @contextmanager
    def load(self) -> Iterator[Rehearsal]:
        """Load as a run does; the modules of plugins with a `path` are forgotten when the block is left.

        Raises what a run raises, and `BubError` for a mock of a tool that there is not.
        """
        try:
            self._runtime.load()
            self._check_tools()
            yield self
        finally:
            if self._snapshot is not None:
                self._snapshot.let_go()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Open the runtime with tapes of its own: a test leaves no trace on those of the person who runs it."""
        async with self._runtime.open(MemoryTapeStore):
            yield

    async def process_inbound(self, message: Envelope, on_event: OnEvent | None = None) -> TurnResult:
        """Carry a message through the pipeline to its replies; `on_event` gets what is shown meanwhile."""
        return await self._runtime.turns.process_inbound(message, on_event=on_event)

    def _check_tools(self) -> None:
        profiles = self._snapshot.profiles.values() if self._snapshot is not None else ()
        known = {name for profile in profiles for name in profile.graph.tools}
        for name in self._mocked_tools:
            if name not in known and not name.startswith(SERVED):
                problem = f"the test mocks the tool `{name}`, but no plugin of profile `{self.profile}` brings it"
                raise BubError(problem, help=did_you_mean(name, known))

    @property
    def last_result(self) -> TurnResult | None:
        """The result of the turn, also if it failed: the values up to there."""
        return self._runtime.turns.last_result

    def forget_result(self) -> None:
        """Forget the result of the turn before."""
        self._runtime.turns.last_result = None

    @property
    def plan(self) -> Plan:
        """The plan of the profile, once it is loaded."""
        assert self._snapshot is not None
        return self._snapshot.profiles[self.profile].plan

    @property
    def modules(self) -> frozenset[str]:
        """The names of the modules of plugins with a `path`."""
        if self._snapshot is None:
            return frozenset()
        profiles = self._snapshot.profiles.values()
        return frozenset(name for profile in profiles for name in profile.plugins.modules)

    @property
    def all_settings(self) -> Mapping[str, Mapping[str, Any]]:
        """The settings of every profile that is loaded, by profile."""
        return self._runtime.settings

    @property
    def _snapshot(self) -> Snapshot | None:
        latest = self._runtime.loaded.latest
        return latest.snapshot if latest is not None else None


class Witness:
    """Keeps every failure that is reported, also those that the pipeline goes on without."""

    def __init__(self, told: list[tuple[str, Exception]]) -> None:
        self._told = told

    @hookimpl
    def on_error(self, stage: str, error: Exception) -> None:
        self._told.append((stage, error))
