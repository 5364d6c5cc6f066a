"""Generations: a pipeline as it was loaded at one time, with all that belongs to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bub.binding import Calls
from bub.diagnostics import Diagnostic
from bub.envelope import Envelope
from bub.hook_registry import CALLED_AS, ETHOS_POINTS
from bub.hook_runtime import HookRuntime
from bub.hookspecs import HOOK_POINTS, PERSONALITY_POINT
from bub.pipeline.graph import Graph
from bub.pipeline.merge import Document
from bub.pipeline.routes import Route
from bub.plugins import PluginSet
from bub.scopes import Scope
from bub.tools import ToolBox, ToolPolicy


@dataclass(slots=True)
class Profile:
    """One profile, loaded: its own settings, plugin instances and graph."""

    name: str
    settings: Mapping[str, Any]
    plugins: PluginSet
    graph: Graph
    hooks: HookRuntime
    policy: ToolPolicy
    budget: Mapping[str, int]
    is_parallel: bool = False
    """Whether turns of one session run side by side."""
    channels: tuple[str, ...] | None = None
    """The channels that it opens; None where it does not say."""
    box: ToolBox | None = None
    models: Calls | None = None
    admissions: Calls | None = None
    looks_for_new_sessions: bool = field(init=False, default=False)
    """Whether a stage depends on whether a session is new."""
    has_personalities: bool = field(init=False, default=False)
    """Whether its sessions may choose another profile."""

    def __post_init__(self) -> None:
        fields = (name for step in self.graph.steps if step.when is not None for name, _ in step.when.patterns)
        self.looks_for_new_sessions = "session" in fields
        self.has_personalities = PERSONALITY_POINT in self.graph.fired


@dataclass(slots=True, eq=False)
class Generation:
    """A pipeline as it was loaded at one time. Once its `profiles` are there, nothing that a turn asks it for changes.

    `users` counts the turns that run on it; `scope` keeps open what only its own plugins share.
    """

    number: int
    start_profile: str
    document: Document | None = None
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    settings: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    routes: tuple[Route, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    plugins: list[PluginSet] = field(default_factory=list)
    users: int = 0
    scope: Scope = field(default_factory=Scope)

    def profile_for(self, message: Envelope) -> Profile:
        """The profile of the first route that matches a message, else the one chosen at start."""
        for route in self.routes:
            if route.when.matches(message):
                return self.profiles[route.profile]
        return self.profiles[self.start_profile]

    def brought(self, factory: Callable[..., Any]) -> bool:
        """Whether a function is of one of its plugins, so that no other generation has it too."""
        owner, module = getattr(factory, "__self__", None), getattr(factory, "__module__", None)
        return any(
            module in plugins.modules or any(owner is one.plugin for one in plugins.plugins) for plugins in self.plugins
        )

    async def close(self) -> None:
        """Close what its plugins share, and let go of the modules of its plugins with a `path`."""
        try:
            await self.scope.close()
        finally:
            self.forget_modules()

    def forget_modules(self) -> None:
        """Take the modules of its plugins with a `path` out of `sys.modules`, once nothing runs on it any more."""
        for plugins in self.plugins:
            plugins.forget_modules()


def handled_points(graphs: Iterable[Graph]) -> tuple[dict[str, str], dict[str, str]]:
    """The points that handlers can be registered on where these graphs run, with their kinds; the others, with why not.

    An observer point is a void one to its handlers. A point has to be of one kind wherever it is called, since a
    handler is registered for all profiles at once.
    """
    found: dict[str, dict[str, str]] = {}
    for graph in graphs:
        for hook, kind in _kinds_in(graph):
            found.setdefault(hook, {}).setdefault(CALLED_AS.get(kind, kind), graph.profile)
    points: dict[str, str] = {}
    uncalled = (name for name in HOOK_POINTS if name not in found and name not in ETHOS_POINTS)
    closed = {name: f"this pipeline does not call handlers at `{name}`" for name in uncalled}
    for hook, kinds in found.items():
        kind = next(iter(kinds))
        if len(kinds) > 1:
            each = ", ".join(f"{kind} in profile `{profile}`" for kind, profile in kinds.items())
            closed[hook] = f"`{hook}` is of more than one kind ({each}), so that no handler suits it"
        elif kind not in CALLED_AS:
            closed[hook] = f"`{hook}` is a {kind} point, and handlers are called at void, modifying and claiming ones"
        else:
            points[hook] = kind
    return points, closed


def _kinds_in(graph: Graph) -> Iterable[tuple[str, str]]:
    yield from ((step.hook, step.kind) for step in graph.steps)
    yield from ((point.name, point.kind) for point in graph.fired.values())
