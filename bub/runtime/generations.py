"""Generations: snapshots in use, from their first turn to the end of their last one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from bub.base.diagnostics import Diagnostic, sort_diagnostics
from bub.base.scopes import Scope
from bub.envelope import Envelope
from bub.errors import BubError
from bub.hook_registry import ETHOS_POINTS, HANDLER_KINDS, HookRegistry
from bub.hooks.facts import Kind
from bub.hookspecs import HOOK_POINTS
from bub.pipeline.run.graph import Graph
from bub.runtime.snapshot import Profile, Snapshot


class Generation(msgspec.Struct, eq=False):
    """A snapshot in use; the one that was loaded first has the `number` 1.

    `users` counts the turns that run on it; `scope` keeps open what only its own plugins share. `warnings` are those of
    the snapshot, and those that were found since.
    """

    number: int
    snapshot: Snapshot
    warnings: tuple[Diagnostic, ...] = ()
    users: int = 0
    scope: Scope = msgspec.field(default_factory=Scope)
    risks_early: bool = False
    """Whether a plugin of any profile is called before a turn holds its session."""

    def __post_init__(self) -> None:
        self.risks_early = any(profile.risks_early for profile in self.profiles.values())

    @property
    def profiles(self) -> Mapping[str, Profile]:
        """The profiles that can get a turn, by name."""
        return self.snapshot.profiles

    def profile_for(self, message: Envelope, named: str | None = None) -> Profile:
        """The profile that is `named`, else that of the first route that matches, else the one chosen at start.

        Raises `BubError` if the one that is named is not loaded: no other may take its place.
        """
        if named is None:
            return self.snapshot.profile_for(message)
        if named not in self.profiles:
            raise BubError(f"profile `{named}` is not loaded any more, and no other may take its turn")
        return self.profiles[named]

    def warn(self, findings: Iterable[Diagnostic]) -> None:
        """Keep more warnings."""
        self.warnings = sort_diagnostics([*self.warnings, *findings])

    async def close(self) -> None:
        """Close what its plugins share and run on, and let go of the modules of its plugins with a `path`."""
        try:
            await self.scope.close()
        finally:
            try:
                await self.snapshot.close_hosts()
            finally:
                self.snapshot.let_go()


class Loaded(msgspec.Struct):
    """What is loaded now, and what lives as long as a runtime, whatever is loaded again meanwhile.

    `latest` is what new turns run on. `kept` are all that may be used, oldest first: the first of all, which channels
    and tapes live on, those with turns under way, and the latest one. `scope` and `tape_store` are there while the
    runtime is open.
    """

    latest: Generation | None = None
    kept: list[Generation] = msgspec.field(default_factory=list)
    scope: Scope | None = None
    tape_store: Any = None
    registry: HookRegistry = msgspec.field(default_factory=HookRegistry)

    @property
    def current(self) -> Generation:
        """What new turns run on; `BubError` if nothing is loaded yet."""
        if self.latest is None:
            raise BubError("no pipeline is loaded yet", help="call `load_hooks()` first")
        return self.latest

    def begin(self, snapshot: Snapshot) -> Generation:
        """Make a generation of a snapshot; no turn runs on it before `use`.

        Raises `HookError`, and then nothing has changed, if handlers are registered on a point that the snapshot
        calls in another way.
        """
        self.registry.learn(*collect_points(profile.graph for profile in snapshot.profiles.values()))
        number = self.latest.number + 1 if self.latest is not None else 1
        return Generation(number, snapshot, snapshot.warnings)

    def use(self, generation: Generation) -> None:
        """Let new turns run on a generation."""
        self.latest = generation  # before it is kept, so that nobody finds it there without a use
        self.kept.append(generation)

    async def let_go(self) -> None:
        """Close what was loaded before and has no turn under way any more, except what was loaded first.

        This is done here and nowhere else, so that nothing comes between the moment a turn takes a generation and the
        moment it is counted there: `reload` may run in another thread.
        """
        for generation in self.kept[1:]:
            if generation is not self.latest and not generation.users and generation in self.kept:
                self.kept.remove(generation)
                await generation.close()


def collect_points(graphs: Iterable[Graph]) -> tuple[dict[str, str], dict[str, str]]:
    """Collect the points that handlers can be registered on if these graphs run, by name with their kinds.

    The second mapping holds the other points, each with the reason why it takes no handlers.

    An observer point is a void one to its handlers. A point has to be of one kind wherever it is called, since a
    handler is registered for all profiles at once.
    """
    found: dict[str, dict[str, str]] = {}
    for graph in graphs:
        for hook, facts in _kinds_in(graph):
            found.setdefault(hook, {}).setdefault(facts.handled_as or facts.name, graph.profile)
    points: dict[str, str] = {}
    uncalled = (name for name in HOOK_POINTS if name not in found and name not in ETHOS_POINTS)
    closed = {name: f"this pipeline does not call handlers at `{name}`" for name in uncalled}
    for hook, kinds in found.items():
        kind = next(iter(kinds))
        if len(kinds) > 1:
            each = ", ".join(f"{kind} in profile `{profile}`" for kind, profile in kinds.items())
            closed[hook] = f"`{hook}` is of more than one kind ({each}), so that no handler suits it"
        elif kind not in HANDLER_KINDS:
            closed[hook] = f"`{hook}` is a {kind} point, and handlers are called at void, modifying and claiming ones"
        else:
            points[hook] = kind
    return points, closed


def _kinds_in(graph: Graph) -> Iterable[tuple[str, Kind]]:
    yield from ((step.hook, step.kind.facts) for step in graph.steps)
    yield from ((point.name, point.kind.facts) for point in graph.fired.values())
