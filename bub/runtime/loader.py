"""Loading: from a pipeline file, a profile and the environment to a snapshot, or to everything that is wrong."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from secrets import token_hex
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import replace

from bub.approval import Approvers, Rules, digest
from bub.base.confinement.value import Confinement
from bub.base.diagnostics import Diagnostic, PipelineError, Severity, sort_diagnostics
from bub.base.locate import bub_home, find_pipeline
from bub.hook_runtime import HookRuntime
from bub.hooks.implementations import implementations_of
from bub.hookspecs import MODEL_POINT, PERSONALITY_POINT
from bub.log import log_exception
from bub.pipeline.check.validate import declared_plugins, lock_beside, profiles_of
from bub.pipeline.check.variables import check_variables
from bub.pipeline.plan.channels import profiles_served
from bub.pipeline.plan.layers.person import Person
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.routes import RouteTable, routes_of
from bub.pipeline.plan.schedules.schedule import Schedule, schedules_of
from bub.pipeline.plan.secret_values import redactor_of
from bub.pipeline.run.compiler import Planner, Recast, StandIn, as_they_are
from bub.pipeline.run.compiler import compile as compile_graph
from bub.pipeline.source.interpolate import read_environment, resolve
from bub.pipeline.source.merge import SHIPPED, Document, load_document, load_shipped
from bub.pipeline.source.referred import reader
from bub.plugins.loading import load_plugins
from bub.plugins.lock.facts import Lock
from bub.plugins.plugin_set import PluginSet
from bub.plugins.served import Served, stand_in
from bub.plugins.servers import ServerSpec
from bub.plugins.shipped import SERVED
from bub.plugins.view import ProfileView
from bub.runtime.hosts.hosts import Hosts
from bub.runtime.locked.drift import require_locked, require_same
from bub.runtime.plugin_view import PluginView
from bub.runtime.profile_settings import SettingsResolver
from bub.runtime.runtime import Learn
from bub.runtime.snapshot import Profile, Snapshot, bind_bootstrap
from bub.runtime.trust import require_trust
from bub.secrets.redactor import Redactor
from bub.tools import Tool, ToolBox, ToolPolicy


def find_document(config_file: str | None, workspace: Path, environ: Mapping[str, str]) -> Document:
    """Find the pipeline file as DESIGN §2 says, and read it.

    `config_file` is a path, `bub:NAME` for a shipped pipeline, or None. Raises `UsageError` when a named file does not
    exist, and `NotTrustedError` when the workspace's file may not be used yet.
    """
    if config_file is not None and config_file.startswith(SHIPPED):
        return load_shipped(config_file.removeprefix(SHIPPED))
    found = find_pipeline(Path(config_file) if config_file is not None else None, workspace, environ)
    require_trust(found, bub_home(environ), environ)
    return load_document(found.path) if found.path is not None else load_shipped("default")


def _learn_nothing(settings: Mapping[str, Mapping[str, Any]], mask: Redactor) -> None:
    """For a caller that shows nothing of what is loaded."""


def _go_on() -> None:
    """For a caller beside whom nothing else runs."""


def load(
    document: Document,
    learn: Learn = _learn_nothing,
    *,
    profile: str,
    workspace: Path,
    environ: Mapping[str, str],
    builtin: Callable[[ProfileView], object],
    person: Person | None = None,
    routed: bool = True,
    elsewhere: bool = False,
    mocks: Mapping[str, StandIn] = MappingProxyType({}),
    mocked_tools: Mapping[str, Callable[[Tool], Tool]] = MappingProxyType({}),
    witnesses: Mapping[str, object] = MappingProxyType({}),
    recast: Recast = as_they_are,
    give_way: Callable[[], None] = _go_on,
    unlocked: bool = False,
    serves: bool = True,
    hosts: Hosts | None = None,
) -> Snapshot:
    """Load the plugins of every profile that can get a turn, and compile a graph for each.

    `profile` is the one chosen at start, and if not `routed` the only one: no route and no session chooses another.
    `builtin` makes the plugin that is in every profile. `person` is what holds in every folder. If the file is to run
    `elsewhere`, what this machine does not set is only noted. `mocks` answer at the stages and hook points they are
    named for, and `mocked_tools` put a tool in the place of another; `witnesses` are plugins beside the listed ones, by
    names that none of these can have; `recast` makes others of all implementations. `learn` gets the settings before
    a plugin is imported. `give_way` is called again and again, a few milliseconds of work apart. Unless it is to be
    `unlocked`, everything has to be what the lock beside the file says, if there is one. Without `serves` no server of
    the Model Context Protocol can be started: of its tools there are those that are mocked. `hosts` opens what plugins
    with `runtime: asyncio` run on.

    Raises `PipelineError` with every finding when one is an error. Whatever it raises, no module of a plugin with a
    `path` is left behind.
    """
    environment, found = read_environment(document.base, environ)
    routes = routes_of(document, environment) if routed else ()
    findings = [*found, *check_variables(document, environment, environ)]
    findings += person.findings if person is not None else ()
    lock, unreadable = lock_beside(document) if not unlocked else (None, ())
    findings += unreadable
    planner = Planner(document, environment, elsewhere=elsewhere, lock=lock)
    resolver = SettingsResolver(document, profile, environ, environment, person)
    keys = Redactor.of(person.secrets if person is not None else ())
    loading = _Loading(
        document,
        workspace,
        environment,
        planner,
        resolver,
        builtin,
        learn,
        mocks,
        mocked_tools,
        witnesses,
        recast,
        give_way,
        routed,
        keys,
        lock,
        serves,
        hosts or Hosts(),
        elsewhere,
    )
    try:
        if unreadable:
            raise PipelineError(findings)
        profiles = loading.load_profiles([profile, *(route.profile for route in routes)], findings)
    except BaseException:  # modules of a snapshot that never was would stay for good
        for plugins in loading.plugins:
            plugins.let_go()
        raise
    schedules = _schedules_of(profiles[profile].plan)
    snapshot = Snapshot(profile, document, profiles, RouteTable(routes), sort_diagnostics(findings), schedules)
    for view in loading.views:
        view.complete(snapshot)
    return snapshot


def _schedules_of(plan: Plan) -> tuple[Schedule, ...]:
    said = plan.root.get("schedules")
    return schedules_of(said.plain()) if said is not None else ()


class _Loading(msgspec.Struct):
    """What one call of `load` was given, and what it has gathered so far."""

    document: Document
    workspace: Path
    environment: Mapping[str, str]
    planner: Planner
    resolver: SettingsResolver
    builtin: Callable[[ProfileView], object]
    learn: Learn
    mocks: Mapping[str, StandIn]
    mocked_tools: Mapping[str, Callable[[Tool], Tool]]
    witnesses: Mapping[str, object]
    recast: Recast
    give_way: Callable[[], None]
    routed: bool
    keys: Redactor
    lock: Lock | None
    serves: bool
    hosts: Hosts
    elsewhere: bool
    settings: dict[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)
    plugins: list[PluginSet] = msgspec.field(default_factory=list)
    views: list[PluginView] = msgspec.field(default_factory=list)
    redactor: Redactor = msgspec.field(default_factory=lambda: Redactor(()))

    def load_profiles(self, names: Iterable[str], findings: list[Diagnostic]) -> Mapping[str, Profile]:
        """Load each profile once, the one chosen at start first, then those of sessions, schedules and clients.

        One that fails does not stop the others.
        """
        profiles: dict[str, Profile] = {}
        failed: PipelineError | None = None
        waiting = list(dict.fromkeys(names))
        start = waiting[0]
        while waiting:
            plans = self._plan(waiting)
            if not self.document.complete:  # what is missing may be what says which plugins there are
                raise PipelineError([*findings, *(finding for plan in plans for finding in plan.findings.items)])
            waiting = []
            if self.lock is not None:
                require_locked(self.lock, plans, findings)
            for plan in plans:
                self.give_way()
                try:
                    profile = profiles[plan.profile] = self._load_profile(plan)
                except PipelineError as error:
                    findings += error.diagnostics
                    failed = error
                    continue
                findings += profile.graph.warnings
                if not self.routed:
                    continue
                further = list(profiles_of(self.document)) if profile.has_personalities else []
                if plan.profile == start:
                    further += [one.profile for one in _schedules_of(plan) if one.profile]
                    # References in settings are not replaced in a plan.
                    read = reader(self.document, self.environment)
                    further += [name for served in profiles_served(plan.root) if (name := read(served.node))]
                waiting += [other for other in dict.fromkeys(further) if other not in {*self.settings, *waiting}]
        if failed is not None:
            raise PipelineError(findings) from failed
        if len(profiles) == 1:  # there is nothing to choose from
            profiles = {name: replace(profile, has_personalities=False) for name, profile in profiles.items()}
        return MappingProxyType(profiles)

    def _plan(self, names: Iterable[str]) -> list[Plan]:
        """Make the plans and settings of profiles; they are known before anything can fail with a key in its words."""
        plans = []
        for name in names:
            self.give_way()
            plan = self.planner.plan_for(name)
            plans.append(plan)
            self.settings[plan.profile], found = self.resolver.settings_of(plan)
            plan.findings.items += found
        self.redactor = redactor_of(self.document, self.environment, self.settings).beside(self.keys)
        self.learn(dict(self.settings), self.redactor)
        return plans

    def _load_profile(self, plan: Plan) -> Profile:
        name, settings = plan.profile, self.settings[plan.profile]
        if not plan.effective.chain:  # there is no such profile, and all else that is wrong follows from that
            raise PipelineError(plan.findings.items)
        view = PluginView(name, self.workspace, settings, self.redactor)
        self.views.append(view)
        policy = ToolPolicy.of(self._value(plan, "tools"))
        served = Served(tuple(self._read_servers(plan, policy)) if self.serves else (), lock=self.lock)
        plugins = self._load_plugins(plan, view)
        graph = compile_graph(plan, plugins, self.mocks, recast=self.recast)
        stand_ins = {name: stand_in(name) for name in self.mocked_tools if name.startswith(SERVED)}
        tools = {
            name: self.mocked_tools[name](tool) if name in self.mocked_tools else tool
            for name, tool in {**stand_ins, **graph.tools}.items()
        }
        channels = self._value(plan, "channels")
        fields = {field for step in graph.steps if step.when is not None for field, _ in step.when.patterns}
        profile = Profile(
            name,
            settings,
            plugins,
            plan,
            graph,
            hooks=HookRuntime(plugins.manager),
            tools=ToolBox(ChainMap(tools, served.tools) if served.specs else tools, policy),
            budget=self._budget_of(plan),
            view=view,
            models=bind_bootstrap(graph, MODEL_POINT),
            admissions=bind_bootstrap(graph, "admit_message"),
            rules=Rules(name, self._digest_of(plan, plugins), self._approvers_of(plan), token_hex(8)),
            confinement=Confinement.of(self._value(plan, "reach")),
            is_parallel=self._value(plan, "concurrency") == "parallel",
            channels=tuple(map(str, channels)) if isinstance(channels, list | tuple) else None,
            looks_for_new_sessions="session" in fields,
            served=served,
            has_personalities=PERSONALITY_POINT in graph.fired,
            lock=self.lock,
        )
        if self.lock is not None:
            require_same(self.lock, profile)
        return profile

    def _load_plugins(self, plan: Plan, view: PluginView) -> PluginSet:
        plugins = load_plugins(
            plan.allowlist,
            builtin=self.builtin(view),
            declared=declared_plugins(plan),
            framework=view,
            base=self.document.base,
            open_host=self.hosts.open,
        )
        self.plugins.append(plugins)
        for plugin, failure in plugins.failures:
            log_exception("plugin.failed", failure, plugin=plugin)
        for name, witness in self.witnesses.items():
            plugins.manager.register(witness, name)
        return plugins

    # What the file says.

    def _value(self, plan: Plan, key: str) -> Any:
        """What the profile says under a key, references replaced; None if it does not say."""
        node = plan.effective.profile_node.get(key) if plan.effective.profile_node is not None else None
        if not node:
            return None
        value, _ = resolve(node, self.environment, base=self.document.base, folders=self.document.folders)
        return value

    def _digest_of(self, plan: Plan, plugins: PluginSet) -> str:
        """Name what a profile says of its tools and of what commands reach, and who judges the calls."""
        judges = [one.plugin for one in implementations_of(plugins.manager, "tool_gate")]
        servers = plan.root.get("mcp")
        said = [servers.plain()] if servers is not None else []
        return digest([self._value(plan, "tools"), self._value(plan, "reach"), judges, *said])

    def _read_servers(self, plan: Plan, policy: ToolPolicy) -> Iterable[ServerSpec]:
        """Read the servers of a profile; what is wrong with the references of those that it allows is told."""
        servers = plan.root.get("mcp")
        for name, node in servers.items() if servers is not None else ():
            folders = self.document.folders
            value, found = resolve(node, self.environment, base=self.document.base, folders=folders)
            if policy.wants(name):
                severity: Severity = "note" if self.elsewhere else "error"
                plan.findings.items += [replace(one, severity=severity) for one in found]
            yield ServerSpec.of(name, value)

    def _approvers_of(self, plan: Plan) -> Approvers:
        listed = self._value(plan, "approvers") or {}
        return tuple((channel, str(one)) for channel, ids in sorted(listed.items()) for one in ids or ())

    def _budget_of(self, plan: Plan) -> Mapping[str, int]:
        budget = self._value(plan, "budget") or {}
        return {limit: int(most) for limit, most in budget.items() if most is not None}
