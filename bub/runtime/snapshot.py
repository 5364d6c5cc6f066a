"""Snapshots: a pipeline as it was loaded at one time, with its profiles, their plugins and their graphs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec
import trio

from bub.approval import Rules
from bub.base.confinement.value import Confinement
from bub.base.diagnostics import Diagnostic
from bub.base.resources import shipped_pipeline
from bub.envelope import Envelope
from bub.hook_runtime import HookRuntime
from bub.hooks.binding import Calls, bind
from bub.hookspecs import HOOK_POINTS
from bub.pipeline.check.validate import lock_file
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.routes import RouteTable
from bub.pipeline.plan.scalars import text_of
from bub.pipeline.plan.schedules.schedule import Schedule
from bub.pipeline.run.graph import Graph
from bub.pipeline.source.merge import SHIPPED, Document
from bub.plugins.lock.facts import Lock
from bub.plugins.plugin_set import Host, PluginSet
from bub.plugins.served import Served
from bub.plugins.view import ProfileView
from bub.tools import ToolBox

CHANNELS = "provide_channels"
"""The hook with which plugins bring channels."""

_READ_AT_START = ("gateway", "tapes", "telemetry")
"""The sections of the settings that are read when the runtime starts, beside those of plugins with channels.

What a channel cannot take over while it runs, only the channel knows: see `bub/channels/renewal.py`.
"""


class OwnView(ProfileView, Protocol):
    """What the plugins of a profile see, as the runtime that uses the profile knows it."""

    def bind(self, runtime: Any, generation: Any) -> None:
        """Let the plugins ask for what lives from now on."""


class Profile(msgspec.Struct, frozen=True, eq=False):
    """One profile, loaded: its own settings, plugin instances and graph, and the plan that this was compiled from.

    `view` is what its plugins see of the runtime. `models` and `admissions` are the implementations of `call_model`
    and `admit_message`, ready to be called.
    """

    name: str
    settings: Mapping[str, Any]
    plugins: PluginSet
    plan: Plan
    graph: Graph
    hooks: HookRuntime
    tools: ToolBox
    budget: Mapping[str, int]
    view: OwnView
    models: Calls
    admissions: Calls
    rules: Rules = Rules()
    """What a yes to one of its tools is bound to, and who may give it."""
    confinement: Confinement | None = None
    """What its commands may reach; None if that is whatever the person reaches."""
    is_parallel: bool = False
    """Whether turns of one session run side by side."""
    channels: tuple[str, ...] | None = None
    """The channels that it opens; None if it does not say."""
    looks_for_new_sessions: bool = False
    """Whether a stage depends on whether a session is new."""
    served: Served = msgspec.field(default_factory=Served)
    """Its servers, and the tools that they offer."""
    has_personalities: bool = False
    """Whether its sessions may choose another profile."""
    lock: Lock | None = None
    """What the lock beside the file says; None if there is none."""

    @property
    def risks_early(self) -> bool:
        """Whether a plugin is called before a turn holds its session: to find it, or to let the message in."""
        return self.graph.risks_early or bool(self.admissions.items)


class Snapshot(msgspec.Struct, frozen=True, eq=False):
    """A pipeline as it was loaded at one time; nothing of it changes any more.

    `profiles` are those that can get a turn: the one chosen at start, those of the routes, and those that sessions may
    choose. `warnings` is what was found and does not keep anything from running.
    """

    start_profile: str
    document: Document
    profiles: Mapping[str, Profile]
    routes: RouteTable
    warnings: tuple[Diagnostic, ...] = ()
    schedules: tuple[Schedule, ...] = ()
    """Those of the profile chosen at start."""

    def profile_for(self, message: Envelope) -> Profile:
        """The profile of the first route that matches a message, else the one chosen at start."""
        route = self.routes.first(message)
        return self.profiles[route.profile if route is not None else self.start_profile]

    @property
    def own_files(self) -> tuple[Path, ...]:
        """The files that say what the agent may do: the pipeline file, those it extends, and plugins with a `path`."""
        return files_of(self.document)

    @property
    def file(self) -> Path | None:
        """The pipeline file itself; None if it is one of Bub's own, or a text."""
        document = self.document
        if document.base is None or not document.layers or document.layers[-1].shipped:
            return None
        return document.base / Path(document.file).name

    def is_source_of(self, factory: Callable[..., Any]) -> bool:
        """Whether a function is of one of its plugins, so that no other snapshot has it too."""
        owner, module = getattr(factory, "__self__", None), getattr(factory, "__module__", None)
        sets = [profile.plugins for profile in self.profiles.values()]
        return any(module in plugins.modules or any(owner is one.plugin for one in plugins.plugins) for plugins in sets)

    @property
    def hosts(self) -> Iterator[tuple[str, Host]]:
        """What plugins run on that do not run where Bub does, behind their names."""
        for profile in self.profiles.values():
            yield from profile.plugins.hosts.items()

    async def close_hosts(self) -> None:
        """End what plugins run on that do not run where Bub does, all at once; it begins again if one is called."""
        async with trio.open_nursery() as closing:
            for _, host in self.hosts:
                closing.start_soon(host.close)

    def let_go(self) -> None:
        """Take the modules of its plugins with a `path` out of `sys.modules`, once nothing runs on it any more."""
        for profile in self.profiles.values():
            profile.plugins.let_go()


def files_of(document: Document) -> tuple[Path, ...]:
    """The files that say what a document means: itself, those it extends, shipped ones too, and plugins with a `path`.

    Its lock is one of them, if there is one.
    """
    section, base = document.root.get("plugins"), document.base
    paths = [text_of(said.get("path")) for _, said in section.items() if said.is_mapping] if section else []
    plugins = (base / os.path.expanduser(path) for path in paths if base is not None and path)  # noqa: PTH111
    names = [layer.file for layer in document.layers if layer.shipped]
    shipped = {name: shipped_pipeline(name.removeprefix(SHIPPED)) for name in names}
    read = (shipped.get(name) or folder / Path(name).name for name, folder in document.folders.items())
    lock = lock_file(document)
    return (*read, *([lock] if lock is not None and os.path.lexists(lock) else []), *plugins)


def bind_bootstrap(graph: Graph, hook: str) -> Calls:
    """The implementations of a hook that is called one by one outside of stages, with what only such a call knows."""
    point = HOOK_POINTS[hook]
    return bind(graph.bootstrap[hook], point, {name: name for name in point.takes}, skip_awaitables=True)


def find_fixed_at_start(started: Snapshot, new: Snapshot) -> Iterator[dict[str, str]]:
    """Find what a snapshot says otherwise than the one that was started with, though it is only read at the start.

    That is sections of the settings, which channels run, and plugins with channels that came or have gone. Each is
    given as fields of a line of the log.
    """
    before, after = started.profiles[started.start_profile], new.profiles[new.start_profile]
    for name in _READ_AT_START:
        if before.settings.get(name) != after.settings.get(name):
            yield {"settings": name}
    if before.channels != after.channels:
        yield {"settings": "channels"}
    brought_before, brought_now = (
        {one.plugin for one in profile.graph.bootstrap[CHANNELS]} for profile in (before, after)
    )
    for name in sorted(brought_before ^ brought_now):
        yield {"plugin": name, "why": "its channels run on" if name in brought_before else "its channels do not run"}
