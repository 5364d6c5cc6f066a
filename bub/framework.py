"""`BubFramework`: from a pipeline file and its plugins to turns."""

from __future__ import annotations

import copy
import os
from collections.abc import AsyncIterator, Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import trio

from bub.asking import Ask, Asking
from bub.binding import Calls, bind
from bub.builtin.hook_impl import BuiltinPlugin
from bub.calling import as_events, join_low_to_high
from bub.configure import merge
from bub.diagnostics import Diagnostic, PipelineError, sort_diagnostics
from bub.envelope import Envelope, addressed, field_of
from bub.errors import BubError, HookTypeError
from bub.hook_runtime import HookRuntime
from bub.hookspecs import HOOK_POINTS, MessageHandler
from bub.implementations import Implementation, implementations_of
from bub.kinds import SESSION
from bub.locate import bub_home, find_pipeline
from bub.log import cover, log_exception
from bub.masks import Mask
from bub.pipeline.compiler import compile as compile_graph
from bub.pipeline.compiler import plan_for
from bub.pipeline.engine import OnEvent, Turn
from bub.pipeline.graph import Graph
from bub.pipeline.interpolate import read_environment, resolve
from bub.pipeline.merge import DEFAULT_PROFILE, SHIPPED, Document, Layer, load_document, load_shipped
from bub.pipeline.plan import Plan, text_of
from bub.pipeline.routes import Route, routes_of
from bub.pipeline.schema import whole_settings_schema
from bub.pipeline.trace import TurnRecord
from bub.pipeline.validate import declared_plugins
from bub.pipeline.variables import check_variables
from bub.plugins import BUILTIN, PluginSet, PluginStatus, installed_plugins, load_plugins, survey
from bub.scopes import Scope, as_manager
from bub.sessions import Sessions, TurnUnderWay
from bub.settings import environment_settings, for_the_same_provider, resolve_settings
from bub.streaming import AsyncStreamEvents
from bub.tools import Tool, ToolBox, ToolPolicy
from bub.trust import require_trust
from bub.waiting import one_at_a_time, settled

MOST_TURNS = 1024
"""How many turns may run at once; what comes above that waits."""

_T = TypeVar("_T")


class TurnResult(NamedTuple):
    """What a turn came to; a value that no stage made is None (DESIGN §5).

    `ended_by` is None for a turn that ran to its end, else "denied:STAGE" or "claimed:STAGE"; in what is told of a
    turn that an error ended, "failed:STAGE". `trace` says what became of each stage, in the order they ended.
    """

    session_id: str | None = None
    prompt: Any = None
    model_output: str | None = None
    outbounds: list[Envelope] | None = None
    state: dict[str, Any] | None = None
    ended_by: str | None = None
    profile: str = DEFAULT_PROFILE
    trace: Sequence[TurnRecord] = ()


@dataclass(slots=True)
class _Profile:
    """One profile, loaded: its own settings, plugin instances and graph."""

    name: str
    settings: Mapping[str, Any]
    plugins: PluginSet
    graph: Graph
    hooks: HookRuntime
    policy: ToolPolicy
    budget: Mapping[str, int]
    box: ToolBox | None = None
    models: Calls | None = None


_turn_under_way: ContextVar[TurnUnderWay | None] = ContextVar("bub_turn", default=None)


@dataclass(slots=True)
class _Runtime:
    """What all profiles of one framework share."""

    document: Document | None = None
    profiles: dict[str, _Profile] = field(default_factory=dict)
    settings: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    mask: Mask = field(default_factory=partial(Mask, ()))
    routes: tuple[Route, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    start_profile: str = DEFAULT_PROFILE
    loading: bool = False
    sessions: Sessions = field(default_factory=partial(Sessions, MOST_TURNS))
    last_result: TurnResult | None = None
    scope: Scope | None = None
    tape_store: Any = None


class BubFramework:
    """The runtime: finds the pipeline file, loads what the profile allows, compiles it and runs turns.

    `config_file` is a path, or `bub:NAME` for a shipped pipeline; left out, the file is looked for as DESIGN §2 says.
    `profile` is the one chosen at start (else `BUB_PROFILE`, else `default`), `workspace` the folder the agent works
    in (else the current one). Nothing is read before `load_hooks`.
    """

    def __init__(
        self,
        config_file: str | Path | None = None,
        *,
        profile: str | None = None,
        workspace: str | Path | None = None,
    ) -> None:
        self.config_file = str(config_file) if config_file is not None else None
        self.profile = profile or os.environ.get("BUB_PROFILE") or DEFAULT_PROFILE
        self.workspace = Path(workspace) if workspace is not None else Path.cwd()
        self._runtime = _Runtime(start_profile=self.profile)

    # Loading.

    def load_hooks(self) -> None:
        """Find the pipeline file, load the plugins of its profiles and compile; once, later calls do nothing.

        Raises `UsageError` when a named file does not exist, `NotTrustedError` when the workspace's file may not be
        used yet, and `PipelineError` with every finding when the pipeline does not compile.
        """
        runtime = self._runtime
        if runtime.profiles:
            return
        if runtime.loading:
            raise BubError(
                "a plugin asked for what is loaded while it was being loaded itself",
                help="do that in a hook, or when the runtime is running",
            )
        runtime.loading = True
        try:
            self._load(dict(os.environ))
        finally:
            runtime.loading = False

    def _load(self, environ: Mapping[str, str]) -> None:
        runtime = self._runtime
        document = self._read(environ)
        runtime.document = document
        environment, found = read_environment(document.base, environ)
        routes = self._routes(document, environment)
        findings = [*found, *check_variables(document, environment)]
        failed: BubError | None = None
        profiles = {}
        for name in dict.fromkeys([runtime.start_profile, *(route.profile for route in routes)]):
            try:
                profiles[name] = self._load_profile(document, name, environment)
                findings += profiles[name].graph.plan.findings.items
            except PipelineError as error:
                findings += error.diagnostics
                failed = error
        if failed is not None:
            raise PipelineError(findings) from failed
        runtime.profiles, runtime.routes = profiles, routes
        runtime.warnings = sort_diagnostics(findings)

    def _read(self, environ: Mapping[str, str]) -> Document:
        named = self.config_file
        if named is not None and named.startswith(SHIPPED):
            return load_shipped(named.removeprefix(SHIPPED))
        found = find_pipeline(Path(named) if named is not None else None, self.workspace, environ)
        require_trust(found, bub_home(environ), environ)
        return load_document(found.path) if found.path is not None else load_shipped("default")

    def _load_profile(self, document: Document, name: str, environment: Mapping[str, str]) -> _Profile:
        plan = plan_for(document, name, environment)
        declared = declared_plugins(plan)
        from_packages = (plugin for plugin, _ in plan.allowlist if plugin not in declared or not declared[plugin].path)
        settings, found = resolve_settings(
            plan.effective.root,
            environment,
            base=document.base,
            schema=whole_settings_schema(from_packages),
            folders=document.folders,
        )
        plan.findings.items += found
        settings = for_the_same_provider(settings, self._said(plan.effective.layers, document, environment))
        if not document.complete:
            raise PipelineError(plan.findings.items)  # what is missing may be what says which plugins there are
        self._runtime.settings[name] = settings
        self._runtime.mask = Mask.over(document, environment, self._runtime.settings)
        cover(self._runtime.mask)  # before a plugin can fail with a key in what it says
        framework = self._for(name)
        plugins = load_plugins(
            plan.allowlist,
            builtin=BuiltinPlugin(framework),
            declared=declared,
            framework=framework,
            base=document.base,
        )
        for plugin, failure in plugins.failures:
            log_exception("plugin.failed", failure, plugin=plugin)
        graph, hooks = self._compile(plan, plugins), HookRuntime(plugins.manager)

        def said(key: str) -> Any:
            node = plan.effective.profile_node.get(key) if plan.effective.profile_node is not None else None
            return resolve(node, environment, base=document.base, folders=document.folders)[0] if node else None

        budget = {limit: int(most) for limit, most in (said("budget") or {}).items() if most is not None}
        return _Profile(name, settings, plugins, graph, hooks, ToolPolicy.of(said("tools")), budget)

    def _compile(self, plan: Plan, plugins: PluginSet) -> Graph:
        return compile_graph(plan, plugins)

    def _routes(self, document: Document, environment: Mapping[str, str]) -> tuple[Route, ...]:
        return routes_of(document, environment)

    def _said(
        self, layers: Iterable[Layer], document: Document, environment: Mapping[str, str]
    ) -> Iterator[Mapping[str, Any]]:
        """The settings of each layer by itself, weakest first: files, profiles, `.env`, the real environment.

        What the environment gives without naming a model is meant for the model of the profile chosen at start, so
        that a route to another profile does not take its key along.
        """
        schema = whole_settings_schema()
        for layer in layers:
            node = layer.root.get("settings")
            if node is not None:
                said, _ = resolve(node, environment, base=document.base, folders=document.folders)
                yield said or {}
        started = self._runtime.settings.get(self._runtime.start_profile, {})
        if started.get("model"):
            yield {"model": started["model"]}
        beside, _ = read_environment(document.base, {})
        for variables in (beside, os.environ):
            yield {
                path[0]: variables[name] for path, name in environment_settings(variables, schema, {}) if len(path) == 1
            }

    def _for(self, profile: str) -> BubFramework:
        """This framework as the plugins of one profile see it."""
        view = copy.copy(self)
        view.profile = profile
        return view

    # What is loaded.

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of this profile, references replaced and the environment's own laid over them."""
        return self._runtime.settings.get(self.profile, {})

    @property
    def mask(self) -> Mask:
        """What covers the secrets of the environment and of the profiles' settings where a turn is kept or shown."""
        return self._runtime.mask

    @property
    def home(self) -> Path:
        """Bub's own folder: `$BUB_HOME`, else `~/.bub`."""
        return bub_home(os.environ)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What was found while compiling and does not keep anything from running."""
        return self._runtime.warnings

    @property
    def sources(self) -> Mapping[str, str]:
        """The text of every file that was read, by the name findings give it."""
        return self._runtime.document.sources if self._runtime.document is not None else {}

    @property
    def last_result(self) -> TurnResult | None:
        """What the turn that ended last came to, also where it failed: the values up to there."""
        return self._runtime.last_result

    @property
    def last_trace(self) -> Sequence[TurnRecord]:
        """What became of each stage of the turn that ended last, also where it failed."""
        return self._runtime.last_result.trace if self._runtime.last_result is not None else ()

    @property
    def graph(self) -> Graph:
        """The compiled pipeline of the profile chosen at start."""
        return self._loaded().graph

    def hook_report(self) -> dict[str, list[str]]:
        """Each implemented hook with its plugins in the order they are asked (BEHAVIOURS H23)."""
        return self._loaded().hooks.hook_report()

    def implementations(self, name: str) -> tuple[Implementation, ...]:
        """What the plugins bring for one hook point, in the order they are asked."""
        return implementations_of(self._loaded().plugins.manager, name)

    def hook_kind(self, name: str) -> str:
        """The kind that the pipeline gives a hook, else the usual one of its point."""
        for step in self.graph.plan.stages:
            if step.hook.point.name == name or step.hook.point.twin == name:
                return step.kind.name if step.kind is not None else ""
        fired = self.graph.fired.get(name)
        if fired is not None:
            return fired.kind
        return HOOK_POINTS[name].kinds[0] if name in HOOK_POINTS else ""

    def plugin_report(self) -> tuple[PluginStatus, ...]:
        """What became of every plugin that is listed or installed, for the profile chosen at start."""
        return survey(self._loaded().plugins, installed_plugins())

    def _loaded(self) -> _Profile:
        self.load_hooks()
        return self._runtime.profiles[self.profile]

    # Bootstrap hooks: those of the profile chosen at start.

    def create_cli_app(self, own: Iterable[str] = ()) -> Any:
        """A Typer application with the commands that the profile's plugins register.

        Two commands of one name are a `BubError` that names both plugins; those that Bub has of its `own` count as
        the builtin's (BEHAVIOURS O1).
        """
        import typer  # a command line is not always wanted

        app = typer.Typer(rich_markup_mode=None)
        owners = dict.fromkeys(own, BUILTIN)
        calls = self._bootstrap("register_cli_commands")
        for call in calls.items:
            brought = typer.Typer(rich_markup_mode=None)
            call.function(*calls.arguments({"app": brought})[call.signature])
            for name in _command_names(brought):
                if name in owners:
                    raise BubError(
                        f"plugins `{owners[name]}` and `{call.plugin}` both bring the command `{name}`",
                        help=f"take `{call.plugin}` off the profile's list",
                    )
                owners[name] = call.plugin
            app.registered_commands += brought.registered_commands
            app.registered_groups += brought.registered_groups
        return app

    def get_channels(self, message_handler: MessageHandler) -> dict[str, Any]:
        """The channels by name; of two with one name, that of the higher priority counts (BEHAVIOURS C1, H32)."""
        channels: dict[str, Any] = {}
        for provided in self._loaded().hooks.call_many_sync("provide_channels", message_handler=message_handler):
            for channel in provided or ():
                channels.setdefault(channel.name, channel)
        return channels

    def get_system_prompt(self, prompt: Any, state: dict[str, Any]) -> str:
        """The system prompt: the fragments of all plugins, low priority first, a blank line between (T34)."""
        hooks = self._loaded().hooks
        return join_low_to_high(hooks.call_many_sync("system_prompt", prompt=prompt, state=state))

    def get_tape_store(self) -> Any:
        """The tape store while `running()` is open, else None (BEHAVIOURS T36)."""
        return self._runtime.tape_store

    def build_tape_context(self) -> Any:
        """What the first plugin gives as the context that tapes are read with, or None."""
        return self._loaded().hooks.call_first_sync("build_tape_context")

    @property
    def tools(self) -> ToolBox:
        """The tools that this profile's plugins provide, and which of them it may use.

        Two tools of one name are a `BubError` that names both plugins.
        """
        profile = self._loaded()
        if profile.box is None:
            owners: dict[str, str] = {}
            tools: dict[str, Tool] = {}
            for call in self._bootstrap("provide_tools").items:
                brought = call.function()
                for tool in call.checked(brought) if brought is not None else ():
                    if not isinstance(tool, Tool):
                        raise HookTypeError("provide_tools", call.plugin, "a list of what `@bub.tool` makes", tool)
                    if tool.name in tools:
                        raise BubError(
                            f"plugins `{owners[tool.name]}` and `{call.plugin}` both bring the tool `{tool.name}`",
                            help="take one of them off the profile's list",
                        )
                    owners[tool.name], tools[tool.name] = call.plugin, tool
            profile.box = ToolBox(tools, profile.policy)
        return profile.box

    @property
    def own_files(self) -> tuple[Path, ...]:
        """The files that say what the agent may do: the pipeline file, those it extends, and plugins with a `path`."""
        document = self._runtime.document
        if document is None:
            return ()
        section, base = document.root.get("plugins"), document.base
        paths = [text_of(said.get("path")) for _, said in section.items() if said.is_mapping] if section else []
        plugins = (base / path for path in paths if base is not None and path)
        return (*(folder / Path(name).name for name, folder in document.folders.items()), *plugins)

    @property
    def budget(self) -> Mapping[str, int]:
        """What the profile may use: its `budget:`."""
        return self._loaded().budget

    @property
    def ask(self) -> Ask | None:
        """How the person who started the turn under way is asked; None where they cannot be."""
        turn = _turn_under_way.get()
        return next((one.ask for one in turn.chain() if one.ask is not None), None) if turn is not None else None

    async def call_model(self, request: Mapping[str, Any], session_id: str) -> AsyncStreamEvents | None:
        """The answer of the first plugin that brings the model itself; None where Bub's own providers are meant."""
        profile = self._loaded()
        if profile.models is None:
            profile.models = self._bootstrap("call_model")
        for call in profile.models.items:
            values = {"request": request, "session_id": session_id}
            answer = await settled(call.function(*profile.models.arguments(values)[call.signature]))
            if answer is not None:
                return as_events(call, answer)
        return None

    def collect_onboard_config(
        self,
        current_config: Mapping[str, Any] | None = None,
        *,
        ask: Asking | None = None,
        only: Container[str] | None = None,
    ) -> dict[str, Any]:
        """The configuration with every plugin's fragment laid over it, high priority last, so that it wins.

        Each plugin gets a copy of the configuration so far, and `ask` to put questions with; with `only`, no others
        than these plugins are asked. A fragment that is neither a dict nor None is a `HookTypeError` that names the
        plugin (BEHAVIOURS decision 8).
        """
        collected = merge(current_config or {}, {})
        calls = self._bootstrap("onboard_config")
        for call in reversed(calls.items):
            if only is None or call.plugin in only:
                values = {"current_config": merge(collected, {}), "ask": ask}
                try:
                    fragment = call.function(*calls.arguments(values)[call.signature])
                except Exception as error:
                    error.add_note(f"(in `onboard_config` of plugin `{call.plugin}`)")
                    raise
                if fragment is not None:
                    collected = merge(collected, call.checked(fragment))
        return collected

    def _bootstrap(self, hook: str) -> Calls:
        """The implementations of a hook that is called one by one here, with what only such a call knows."""
        point = HOOK_POINTS[hook]
        keys = {name: name for name in point.takes}
        return bind(self._loaded().graph.bootstrap[hook], point, keys, skip_awaitables=True)

    # Running.

    @asynccontextmanager
    async def running(self) -> AsyncIterator[BubFramework]:
        """Open the runtime: the tape store and what plugins share stay open until the block is left.

        It cannot be opened twice at once (BEHAVIOURS T37); everything is closed in reverse order, whatever fails.
        """
        runtime = self._runtime
        self.load_hooks()
        if runtime.scope is not None:
            raise BubError("the runtime is open already", help="use the one `running()` block for all turns")
        scope = runtime.scope = Scope()
        try:
            runtime.tape_store = await self._open_tape_store(scope)
            yield self
        finally:
            runtime.scope, runtime.tape_store = None, None
            await scope.close()

    async def _open_tape_store(self, scope: Scope) -> Any:
        store = self._loaded().hooks.call_first_sync("provide_tape_store")
        manager = as_manager(store)
        return await scope.enter(manager) if manager is not None else store

    async def shared(self, factory: Callable[[], AbstractAsyncContextManager[_T]]) -> _T:
        """What `factory` opens, opened once while `running()` is open; outside of it, for the turn under way.

        For plugins that need something costly, such as an HTTP client. It must hold no nursery open.
        """
        turn = _turn_under_way.get()
        scope = self._runtime.scope or (turn.open() if turn is not None else None)
        if scope is None:
            raise BubError("nothing is running that could keep this open", help="open `running()` first")
        return await scope.shared(factory)

    async def process_inbound(
        self,
        message: Envelope,
        stream_output: bool = False,
        on_event: OnEvent | None = None,
        *,
        ask: Ask | None = None,
    ) -> TurnResult:
        """Carry one message through the pipeline to its replies.

        The profile is that of the first route that matches, else the one chosen at start. Messages of one session
        are answered one after another in the order they came (BEHAVIOURS T40). `on_event` is told of each stream
        event with the message, as it comes; `stream_output` only says how a channel shows the reply. `ask` puts a
        question to the person who sent the message. Raises what the first failing stage raised, once its clean-ups
        have run and `on_error` was told (DESIGN §5).
        """
        runtime = self._runtime
        if not runtime.profiles:
            self.load_hooks()
        inbound = dict(message) if isinstance(message, dict | Mapping) else message
        current = addressed(inbound)
        profile = runtime.profiles[self._profile_for(current) if runtime.routes else runtime.start_profile]
        asking = one_at_a_time(ask) if ask is not None else None  # a person reads one question at a time
        under_way = TurnUnderWay(_turn_under_way.get(), field_of(current, "lifespan"), asking)
        token = _turn_under_way.set(under_way)
        try:
            if under_way.above is None:
                await runtime.sessions.arrive(under_way, _origin(current))
            await trio.lowlevel.checkpoint()
            if under_way.lifespan is not None and not profile.graph.joins:
                await under_way.open_lifespan()
            start = {"message": current, "inbound": inbound, "profile": profile.name, "workspace": self.workspace}
            join = partial(runtime.sessions.join, under_way)
            turn = Turn(profile.graph, start, join=join, on_event=on_event)
            try:
                await turn.run()
            finally:
                result = runtime.last_result = _result_of(turn, profile.name)
        finally:
            _turn_under_way.reset(token)
            try:
                if under_way.scope is not None:
                    await under_way.scope.close()
            finally:
                runtime.sessions.leave(under_way)
        return result

    def _profile_for(self, message: Envelope) -> str:
        taken = next((route for route in self._runtime.routes if route.when.matches(message)), None)
        return taken.profile if taken is not None else self._runtime.start_profile


def _result_of(turn: Turn, profile: str) -> TurnResult:
    return TurnResult(
        turn.value("session_id"),
        turn.value("prompt"),
        turn.value("model_output"),
        turn.value("outbounds"),
        turn.value("state"),
        str(turn.ended_by) if turn.ended_by is not None else None,
        profile,
        turn.trace,
    )


def _origin(message: Envelope) -> str:
    """Where a message comes from, before its session is known: messages of one origin keep their order."""
    own = field_of(message, SESSION)
    if own is not None and str(own).strip():
        return str(own).strip()
    return f"{field_of(message, 'channel')}:{field_of(message, 'chat_id')}"


def _command_names(app: Any) -> Iterable[str]:
    for command in app.registered_commands:
        yield command.name or command.callback.__name__.replace("_", "-")
    for group in app.registered_groups:
        yield group.name or getattr(group.typer_instance.info, "name", None) or ""
