"""`BubFramework`: from a pipeline file and its plugins to turns."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import AsyncIterator, Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import trio

from bub.admission import Admission, Steering
from bub.arrivals import admitted, origin_of, session_of
from bub.asking import Ask, Asking
from bub.binding import Calls, bind
from bub.builtin.hook_impl import BuiltinPlugin
from bub.bus import BusProtocol, MessageBus, checked_bus, handle_once
from bub.calling import as_events, join_low_to_high
from bub.configure import merge
from bub.counts import Counts
from bub.diagnostics import Diagnostic, Findings, PipelineError, sort_diagnostics
from bub.envelope import Envelope, addressed, field_of
from bub.errors import BubError, TapeError, UsageError
from bub.generations import Generation, Profile, handled_points
from bub.hook_registry import HookRegistry
from bub.hook_runtime import HookRuntime
from bub.hookspecs import HOOK_POINTS, MessageHandler
from bub.implementations import Implementation, implementations_of
from bub.locate import bub_home, find_pipeline
from bub.log import cover, log_exception, log_info, log_warning
from bub.masks import Mask
from bub.pipeline.compiler import compile as compile_graph
from bub.pipeline.compiler import plan_for
from bub.pipeline.engine import OnEvent, Turn, tell_observers
from bub.pipeline.graph import Graph
from bub.pipeline.interpolate import read_environment, resolve
from bub.pipeline.merge import DEFAULT_PROFILE, SHIPPED, Document, Layer, load_document, load_shipped
from bub.pipeline.offers import offers_of
from bub.pipeline.plan import Plan, text_of
from bub.pipeline.provided import check_channels, tell_failure, tell_one_name
from bub.pipeline.routes import Route, routes_of
from bub.pipeline.schema import whole_settings_schema
from bub.pipeline.trace import TurnRecord
from bub.pipeline.validate import declared_plugins, profiles_of
from bub.pipeline.variables import check_variables
from bub.plugins import BUILTIN, PluginSet, PluginStatus, installed_plugins, load_plugins, survey
from bub.scopes import Scope, as_manager
from bub.sessions import Dispatch, Sessions, TurnUnderWay
from bub.settings import environment_settings, for_the_same_provider, resolve_settings
from bub.streaming import AsyncStreamEvents
from bub.tape.settings import PERSONALITY, session_settings
from bub.tape.tape import Tape, tape_name
from bub.tools import ToolBox, ToolPolicy
from bub.trust import require_trust
from bub.waiting import one_at_a_time, settled

MOST_TURNS = 1024
"""How many turns may run at once; what comes above that waits."""

ENVIRONMENT_FILE = ".env"
"""The file beside the pipeline file with variables of its own."""

COMMANDS = "register_cli_commands"
"""The hook with which plugins bring commands."""

CHANNELS = "provide_channels"
"""The hook with which plugins bring channels."""

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


_turn_under_way: ContextVar[TurnUnderWay | None] = ContextVar("bub_turn", default=None)


@dataclass(slots=True)
class _Runtime:
    """What lasts as long as a framework, whatever is loaded anew meanwhile.

    `current` is what new turns run on. `kept` are all that may be used, oldest first: the first of all, which channels
    and tapes live on, those with turns under way, and the current one. `read` is the document that was read last, also
    where it was refused.
    """

    current: Generation
    kept: list[Generation] = field(default_factory=list)
    read: Document | None = None
    mask: Mask = field(default_factory=partial(Mask, ()))
    lock: threading.RLock = field(default_factory=threading.RLock)
    loading: bool = False
    sessions: Sessions = field(default_factory=partial(Sessions, MOST_TURNS))
    last_result: TurnResult | None = None
    scope: Scope | None = None
    tape_store: Any = None
    registry: HookRegistry = field(default_factory=HookRegistry)


class _SwitchedError(BaseException):
    """A turn has to begin anew in another profile, since its session chose one meanwhile; never leaves this module."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile.name)
        self.profile = profile


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
        self.counts = Counts()
        self._runtime = _Runtime(Generation(0, self.profile))
        self._bound: Generation | None = None

    # Loading.

    def load_hooks(self) -> None:
        """Find the pipeline file, load the plugins of its profiles and compile; once, later calls do nothing.

        Raises `UsageError` when a named file does not exist, `NotTrustedError` when the workspace's file may not be
        used yet, and `PipelineError` with every finding when the pipeline does not compile.
        """
        if self._generation.profiles:
            return
        runtime = self._runtime
        with self._loading():
            if not runtime.current.profiles:
                runtime.current = Generation(1, runtime.current.start_profile)
                self._load(runtime.current, dict(os.environ))
                runtime.kept.append(runtime.current)

    def reload(self) -> None:
        """Load the pipeline file and its plugins anew: turns that begin from now on run on what is loaded then.

        Turns under way end on what they began with: graph, settings, tools, and the code of plugins with a `path`.
        What cannot change while it runs stays as it was at the start: channels, the tape store and commands. May be
        called in a thread. Raises what `load_hooks` raises, and then nothing has changed.
        """
        runtime = self._runtime
        with self._loading():
            old = runtime.current
            new = Generation(old.number + 1, old.start_profile)
            try:
                self._load(new, dict(os.environ), before=old)
            except BubError as error:
                log_warning("pipeline.reload_refused", error=error)
                raise
            runtime.current = new  # before it is kept, so that nobody finds it there without a use
            runtime.kept.append(new)
        log_info("pipeline.reloaded", generation=new.number)
        for name in _fixed_at_start(old, new):
            log_warning("pipeline.restart_needed", settings=name)

    @contextmanager
    def _loading(self) -> Iterator[None]:
        runtime = self._runtime
        too_early = BubError(
            "a plugin asked for what is loaded while it was being loaded itself",
            help="do that in a hook, or when the runtime is running",
        )
        if self._bound is not None and not self._bound.profiles:
            raise too_early
        with runtime.lock:
            if runtime.loading:
                raise too_early
            runtime.loading = True
            try:
                yield
            finally:
                runtime.loading = False

    def _load(self, generation: Generation, environ: Mapping[str, str], before: Generation | None = None) -> None:
        """Fill a generation; with one `before` it, nothing but the same file read again will do."""
        document = generation.document = self._runtime.read = self._read(environ)
        if before is not None and before.document is not None and before.document.file != document.file:
            raise UsageError(
                f"{before.document.file} is not there any more, or {document.file} comes before it now",
                help="what was loaded stays; start again to use another file",
            )
        environment, found = read_environment(document.base, environ)
        routes = self._routes(document, environment)
        findings = [*found, *check_variables(document, environment)]
        failed: BubError | None = None
        profiles = {}
        names = [generation.start_profile, *(route.profile for route in routes)]
        tried = set[str]()
        try:
            for name in names:
                if name in tried:
                    continue
                tried.add(name)
                try:
                    profile = profiles[name] = self._load_profile(generation, document, name, environment)
                    findings += profile.graph.plan.findings.items
                    if profile.has_personalities:
                        names += profiles_of(document)  # its sessions may choose any of them
                except PipelineError as error:
                    findings += error.diagnostics
                    failed = error
            if failed is not None:
                raise PipelineError(findings) from failed
            if len(profiles) == 1:
                profiles[generation.start_profile].has_personalities = False  # there is nothing to choose from
            self._runtime.registry.learn(*handled_points(profile.graph for profile in profiles.values()))
        except BaseException:
            generation.forget_modules()
            raise
        generation.routes, generation.warnings = routes, sort_diagnostics(findings)
        generation.profiles = profiles

    def _read(self, environ: Mapping[str, str]) -> Document:
        named = self.config_file
        if named is not None and named.startswith(SHIPPED):
            return load_shipped(named.removeprefix(SHIPPED))
        found = find_pipeline(Path(named) if named is not None else None, self.workspace, environ)
        require_trust(found, bub_home(environ), environ)
        return load_document(found.path) if found.path is not None else load_shipped("default")

    def _load_profile(
        self, generation: Generation, document: Document, name: str, environment: Mapping[str, str]
    ) -> Profile:
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
        settings = for_the_same_provider(settings, self._said(generation, plan.effective.layers, document, environment))
        if not document.complete:
            raise PipelineError(plan.findings.items)  # what is missing may be what says which plugins there are
        generation.settings[name] = settings
        # Before a plugin can fail with a key in what it says. A key that was changed is still a key.
        self._runtime.mask = self._runtime.mask.beside(Mask.over(document, environment, generation.settings))
        cover(self._runtime.mask)
        framework = self._for(name, generation)
        plugins = load_plugins(
            plan.allowlist,
            builtin=BuiltinPlugin(framework),
            declared=declared,
            framework=framework,
            base=document.base,
        )
        generation.plugins.append(plugins)
        for plugin, failure in plugins.failures:
            log_exception("plugin.failed", failure, plugin=plugin)
        graph, hooks = self._compile(plan, plugins), HookRuntime(plugins.manager)

        def said(key: str) -> Any:
            node = plan.effective.profile_node.get(key) if plan.effective.profile_node is not None else None
            return resolve(node, environment, base=document.base, folders=document.folders)[0] if node else None

        budget = {limit: int(most) for limit, most in (said("budget") or {}).items() if most is not None}
        is_parallel, opened = said("concurrency") == "parallel", said("channels")
        channels = tuple(map(str, opened)) if isinstance(opened, list | tuple) else None
        policy = ToolPolicy.of(said("tools"))
        return Profile(name, settings, plugins, graph, hooks, policy, budget, is_parallel, channels)

    def _compile(self, plan: Plan, plugins: PluginSet) -> Graph:
        return compile_graph(plan, plugins)

    def _routes(self, document: Document, environment: Mapping[str, str]) -> tuple[Route, ...]:
        return routes_of(document, environment)

    def _said(
        self, generation: Generation, layers: Iterable[Layer], document: Document, environment: Mapping[str, str]
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
        started = generation.settings.get(generation.start_profile, {})
        if started.get("model"):
            yield {"model": started["model"]}
        beside, _ = read_environment(document.base, {})
        for variables in (beside, os.environ):
            yield {
                path[0]: variables[name] for path, name in environment_settings(variables, schema, {}) if len(path) == 1
            }

    def _for(self, profile: str, generation: Generation | None = None) -> BubFramework:
        """This framework as the plugins of one profile see it, whatever is loaded after them."""
        view = copy.copy(self)
        view.profile = profile
        view._bound = generation or self._generation
        return view

    @property
    def _generation(self) -> Generation:
        return self._bound or self._runtime.current

    # What is loaded.

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of this profile, references replaced and the environment's own laid over them."""
        return self._generation.settings.get(self.profile, {})

    @property
    def profiles(self) -> tuple[str, ...]:
        """The profiles that can get a turn: the one chosen at start, those of routes, and those sessions may choose."""
        generation = self._generation
        return tuple(dict.fromkeys((generation.start_profile, *generation.settings)))

    def seen_by(self, profile: str) -> BubFramework:
        """This framework as the plugins of one of its `profiles` see it: with its settings, plugins and tools."""
        return self._for(profile)

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
        return self._generation.warnings

    @property
    def sources(self) -> Mapping[str, str]:
        """The text of every file that was read last, by the name findings give it; also where it was refused."""
        return self._runtime.read.sources if self._runtime.read is not None else {}

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

    @property
    def registry(self) -> HookRegistry:
        """Where handlers are registered that come and go while it runs; one for all profiles, and a reload keeps it.

        They are called before the plugins' implementations of the same point. It knows the void, modifying and
        claiming points of the pipeline, an observer one as void, and those of Ethos.
        """
        self._loaded()
        return self._runtime.registry

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

    def _loaded(self) -> Profile:
        self.load_hooks()
        return self._generation.profiles[self.profile]

    # Bootstrap hooks: those of the profile chosen at start.

    def create_cli_app(self, own: Iterable[str] = ()) -> Any:
        """A Typer application with the commands that the profile's plugins register.

        Two commands of one name are a `PipelineError` that names both plugins; those that Bub has of its `own` count as
        the builtin's (BEHAVIOURS O1). So is a plugin that fails, unless it is `optional`: then it is a warning.
        """
        import typer  # a command line is not always wanted

        app = typer.Typer(rich_markup_mode=None)
        profile, owners, findings = self._loaded(), dict.fromkeys(own, BUILTIN), Findings()
        calls = _bootstrap(self._loaded(), COMMANDS)
        if not calls.items:
            return app
        offers = offers_of(profile.graph.plan, profile.plugins)
        for implementation, call in zip(profile.graph.bootstrap[COMMANDS], calls.items, strict=True):
            brought = typer.Typer(rich_markup_mode=None)
            try:
                call.function(*calls.arguments({"app": brought})[call.signature])
                names = list(typer.main.get_group(brought).commands)
            except (Exception, SystemExit) as error:  # noqa: BLE001 (code of others: whatever it raises is its failure)
                tell_failure(findings, offers, implementation, "its commands", error)
                continue
            for name in names:
                if name in owners:
                    tell_one_name(findings, offers, f"the command `{name}`", owners[name], call.plugin)
                owners[name] = call.plugin
            app.registered_commands += brought.registered_commands
            app.registered_groups += brought.registered_groups
        self._tell(findings)
        return app

    def get_channels(self, message_handler: MessageHandler) -> dict[str, Any]:
        """The channels by name; of two with one name, that of the higher priority counts (BEHAVIOURS C1, H32)."""
        return {name: channel for name, (_, channel) in self.get_channels_by_plugin(message_handler).items()}

    def get_channels_by_plugin(self, message_handler: MessageHandler) -> dict[str, tuple[str, Any]]:
        """The channels by name as `get_channels` gives them, each behind the plugin that brings it."""
        channels: dict[str, tuple[str, Any]] = {}
        for plugin, provided in self._loaded().hooks.call_each_sync(CHANNELS, message_handler=message_handler):
            for channel in provided or ():
                channels.setdefault(channel.name, (plugin, channel))
        return channels

    @property
    def open_channels(self) -> tuple[str, ...] | None:
        """The channels that the profile opens: its `channels:`, None where it does not say."""
        return self._loaded().channels

    def check_channels(self) -> None:
        """Prove that there are the channels that the profile opens.

        Raises `PipelineError` for those that no plugin of it brings; where one was left out, that is a warning.
        """
        profile, findings = self._loaded(), Findings()
        if profile.channels is not None:
            check_channels(profile.graph.plan, profile.plugins, profile.channels, self.get_channels(_nobody), findings)
        self._tell(findings)

    def _tell(self, findings: Findings) -> None:
        """Keep more findings; raises `PipelineError` where one is an error."""
        generation = self._generation
        generation.warnings = sort_diagnostics([*generation.warnings, *findings.items])
        if findings.has_errors:
            raise PipelineError(findings.items)

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

    def create_bus(self) -> BusProtocol:
        """A bus: that of the first plugin that provides one, else a `MessageBus` (BEHAVIOURS U4).

        A plugin that fails, or provides what is no bus, is an error: falling back from a durable bus to memory would
        lose messages unseen (U5).
        """
        profile = self._loaded()
        calls = _bootstrap(profile, "provide_bus")
        for call in calls.items:
            try:
                provided = call.function(*calls.arguments({})[call.signature])
                if provided is not None:
                    return checked_bus(provided, call.plugin)
            except Exception as error:
                profile.hooks.notify_error_sync(stage=f"provide_bus:{call.plugin}", error=error)
                raise
        return MessageBus()

    async def handle_bus_once(self, bus: BusProtocol, timeout_seconds: float | None = None) -> TurnResult | None:
        """Take one message off a bus, carry it through the pipeline and put its replies onto the bus (BEHAVIOURS U6).

        None when none came within `timeout_seconds`: 0 does not wait, None waits as long as it takes. A message whose
        turn fails is put aside and the error raised; one whose turn is cancelled is the next one again (U7).
        """
        return await handle_once(bus, self.process_inbound, timeout_seconds)

    @property
    def tools(self) -> ToolBox:
        """The tools that this profile's plugins provide, and which of them it may use."""
        profile = self._loaded()
        if profile.box is None:
            profile.box = ToolBox(profile.graph.tools, profile.policy)
        return profile.box

    @property
    def own_files(self) -> tuple[Path, ...]:
        """The files that say what the agent may do: the pipeline file, those it extends, and plugins with a `path`."""
        return _files_of(self._generation.document)

    @property
    def watched_files(self) -> tuple[Path, ...]:
        """The files that a `reload` reads again, whether or not they exist; those of one that was refused as well."""
        read = self._runtime.read
        beside = (read.base / ENVIRONMENT_FILE,) if read is not None and read.base is not None else ()
        return tuple(dict.fromkeys((*self.own_files, *_files_of(read), *beside)))

    @property
    def budget(self) -> Mapping[str, int]:
        """What the profile may use: its `budget:`."""
        return self._loaded().budget

    @property
    def ask(self) -> Ask | None:
        """How the person who started the turn under way is asked; None where they cannot be."""
        turn = _turn_under_way.get()
        return next((one.ask for one in turn.chain() if one.ask is not None), None) if turn is not None else None

    @property
    def steering(self) -> Steering | None:
        """What comes for the turn under way while it runs; None where nothing can."""
        turn = _turn_under_way.get()
        return turn.steering if turn is not None and turn.runs else None

    async def dispatch(self, reply: Envelope) -> bool:
        """Hand a reply to who asked for the turn under way, or for the one it was started from.

        False where nobody takes it.
        """
        turn = _turn_under_way.get()
        for one in turn.chain() if turn is not None and turn.runs else ():
            if one.dispatch is not None:
                return await one.dispatch(reply)
        return False

    async def call_model(self, request: Mapping[str, Any], session_id: str) -> AsyncStreamEvents | None:
        """The answer of the first plugin that brings the model itself; None where Bub's own providers are meant."""
        profile = self._loaded()
        if profile.models is None:
            profile.models = _bootstrap(profile, "call_model")
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
        calls = _bootstrap(self._loaded(), "onboard_config")
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
            for generation in reversed(runtime.kept):
                await generation.scope.close()
            await scope.close()

    async def _open_tape_store(self, scope: Scope) -> Any:
        store = self._loaded().hooks.call_first_sync("provide_tape_store")
        manager = as_manager(store)
        return await scope.enter(manager) if manager is not None else store

    async def shared(self, factory: Callable[[], AbstractAsyncContextManager[_T]]) -> _T:
        """What `factory` opens, opened once while `running()` is open; outside of it, for the turn under way.

        For plugins that need something costly, such as an HTTP client. It must hold no nursery open.
        """
        scope, turn = self._runtime.scope, _turn_under_way.get()
        if scope is None and turn is not None:
            scope = turn.open()
        elif scope is not None and self._bound is not None and self._bound.brought(factory):
            scope = self._bound.scope
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
        dispatch: Dispatch | None = None,
        steering: Steering | None = None,
    ) -> TurnResult:
        """Carry one message through the pipeline to its replies.

        The profile is the one that the session has chosen, where its pipeline lets it (`personality_switched`), else
        that of the first route that matches, else the one chosen at start. Messages of one session are answered one
        after another in the order they came (BEHAVIOURS T40), unless the profile says `concurrency: parallel`.
        `on_event` is told of each stream event with the message, as it comes; `stream_output` only says how a channel
        shows the reply. `ask` puts a question to the person who sent the message, `dispatch` takes the replies, and
        `steering` holds what comes for the turn while it runs. Raises what the first failing stage raised, once its
        clean-ups have run and `on_error` was told (DESIGN §5).
        """
        runtime = self._runtime
        if not runtime.current.profiles:
            self.load_hooks()
        inbound = dict(message) if isinstance(message, dict | Mapping) else message
        current = addressed(inbound)
        asking = one_at_a_time(ask) if ask is not None else None  # a person reads one question at a time
        lifespan = field_of(current, "lifespan")
        under_way = TurnUnderWay(_turn_under_way.get(), lifespan, asking, dispatch, steering)
        generation = under_way.loaded = self._generation_below(under_way.above)
        routed = profile = generation.profile_for(current)
        generation.users += 1
        token = _turn_under_way.set(under_way)
        try:
            if under_way.above is None and not profile.is_parallel:
                await runtime.sessions.arrive(under_way, origin_of(current))
            await trio.lowlevel.checkpoint()
            if profile.has_personalities:
                profile = await self._chosen_on_arrival(generation, routed, current, inbound)
            if under_way.lifespan is not None and not profile.graph.joins:
                await under_way.open_lifespan()
            result, chooses = None, profile.has_personalities
            while result is None:
                start = {"message": current, "inbound": inbound, "profile": profile.name, "workspace": self.workspace}
                join = (
                    partial(self._join, under_way, profile, (generation, routed) if chooses else None)
                    if profile.looks_for_new_sessions or chooses
                    else partial(runtime.sessions.join, under_way, alone=not profile.is_parallel)
                )
                turn = Turn(profile.graph, start, join=join, on_event=on_event, handlers=runtime.registry)
                try:
                    await turn.run()
                    result = _result_of(turn, profile.name)
                except _SwitchedError as switched:
                    profile, chooses = switched.profile, False
                except BaseException:
                    result = _result_of(turn, profile.name)
                    raise
                finally:
                    if result is not None:
                        runtime.last_result = result
        finally:
            _turn_under_way.reset(token)
            try:
                if under_way.scope is not None:
                    await under_way.scope.close()
            finally:
                runtime.sessions.leave(under_way)
                generation.users -= 1
                if len(runtime.kept) > 1:
                    await self._let_go()
        return result

    async def _join(
        self, turn: TurnUnderWay, profile: Profile, choice: tuple[Generation, Profile] | None, session_id: str
    ) -> str:
        """Take a session for a turn, and say whether it is "new" or "known": known is what has something on its tape.

        So a session is new once, however often the process is started again. `choice` is what the session can choose
        from and the profile it has otherwise. Raises `_SwitchedError` where it chose while the turn was waiting.
        """
        said = await self._runtime.sessions.join(turn, session_id, alone=not profile.is_parallel)
        if choice is not None:
            chosen = await self._chosen_by(session_id, *choice)
            if chosen is not profile:
                raise _SwitchedError(chosen)
        if said == "new" and profile.looks_for_new_sessions and await self._has_tape(session_id):
            return "known"
        return said

    async def _has_tape(self, session_id: str) -> bool:
        """Whether something is on the tape of a session."""
        store = self._runtime.tape_store
        if store is None:
            return False
        tape = Tape(tape_name(self.workspace, session_id), store)
        return bool(await tape.fetch(tape.query().limit(1)))

    async def _chosen_by(self, session_id: str, generation: Generation, routed: Profile) -> Profile:
        """The profile that a session has chosen (`personality_switched`), else the one its message is routed to."""
        store = self._runtime.tape_store
        if store is None:
            return routed
        try:
            name = (await session_settings(Tape(tape_name(self.workspace, session_id), store))).get(PERSONALITY)
        except TapeError as error:
            log_exception("personality.unreadable", error, session=session_id)
            return routed
        if name and name not in generation.profiles:
            log_warning("personality.unknown", session=session_id, personality=name, profile=routed.name)
        return generation.profiles.get(str(name), routed) if name else routed

    async def _chosen_on_arrival(
        self, generation: Generation, routed: Profile, message: Envelope, inbound: Envelope
    ) -> Profile:
        """The profile of a message's session as far as it is known before its turn, so that it gates every point."""
        start = {"message": message, "inbound": inbound, "profile": routed.name, "workspace": self.workspace}
        try:
            session_id = await session_of(routed.graph, start)
        except Exception as error:  # noqa: BLE001 (the turn will meet it too, and tell of it)
            log_warning("personality.session_unknown", error=error)
            return routed
        return await self._chosen_by(session_id, generation, routed)

    async def session_of(self, message: Envelope) -> str:
        """Which session a message belongs to, as the turn that answers it would find out (BEHAVIOURS T3-T5).

        Raises what the plugin that was asked raises, once `on_error` was told.
        """
        with self._before_turn(message) as (profile, current):
            try:
                start = {"message": current, "inbound": message, "profile": profile.name, "workspace": self.workspace}
                return await session_of(profile.graph, start)
            except Exception as error:
                await tell_observers(profile.graph, "resolve_session", error, current)
                raise

    async def admit(self, session_id: str, message: Envelope, turn: Admission) -> str | None:
        """What becomes of a message, by the hook `admit_message`; None where no plugin says (BEHAVIOURS C18).

        A plugin that fails, or says what nobody knows, has no say: `on_error` is told (C20).
        """
        with self._before_turn(message) as (profile, current):
            if profile.has_personalities:
                profile = await self._chosen_by(session_id, self._runtime.current, profile)
            if profile.admissions is None:
                profile.admissions = _bootstrap(profile, "admit_message")
            if not profile.admissions.items:
                return None
            try:
                values = {"session_id": session_id, "message": current, "turn": turn}
                return await admitted(profile.admissions, values)
            except Exception as error:  # noqa: BLE001 (the message is let in)
                await tell_observers(profile.graph, "admit_message", error, current)
                return None

    async def report(self, stage: str, error: Exception, message: Envelope) -> None:
        """Tell the log, and the `on_error` observers of the message's profile, of a failure outside of its turn."""
        try:
            with self._before_turn(message) as (profile, current):
                await tell_observers(profile.graph, stage, error, current)
        except Exception as failure:  # noqa: BLE001 (who tells of a failure is not to fail by it)
            log_exception("turn.report_failed", failure, stage=stage, about=error)

    def profile_of(self, message: Envelope) -> str:
        """The name of the profile that a message is routed to."""
        self.load_hooks()
        return self._runtime.current.profile_for(addressed(message)).name

    def is_parallel(self, message: Envelope) -> bool:
        """Whether turns of one session run side by side in the profile that a message is routed to."""
        self.load_hooks()
        return self._runtime.current.profile_for(addressed(message)).is_parallel

    @contextmanager
    def _before_turn(self, message: Envelope) -> Iterator[tuple[Profile, Envelope]]:
        """The profile of a message, which is kept meanwhile, and the message as a turn has it."""
        self.load_hooks()
        generation, current = self._runtime.current, addressed(message)
        profile = generation.profile_for(current)
        generation.users += 1
        try:
            yield profile, current
        finally:
            generation.users -= 1

    def _generation_below(self, above: TurnUnderWay | None) -> Generation:
        """What a turn runs on: a turn that another one started runs on the same, so that both agree."""
        runtime = self._runtime
        loaded = above.loaded if above is not None else None
        return loaded if isinstance(loaded, Generation) and loaded in runtime.kept else runtime.current

    async def _let_go(self) -> None:
        """Close what was loaded before and has no turn under way any more, but for what was loaded first.

        This is done here and nowhere else, so that nothing comes between the moment a turn takes a generation and the
        moment it is counted there: `reload` may run in another thread.
        """
        runtime = self._runtime
        for generation in runtime.kept[1:]:
            if generation is not runtime.current and not generation.users and generation in runtime.kept:
                runtime.kept.remove(generation)
                await generation.close()


async def _nobody(message: Envelope) -> None:
    """Takes the messages of channels that are only looked at."""


def _bootstrap(profile: Profile, hook: str) -> Calls:
    """The implementations of a hook that is called one by one here, with what only such a call knows."""
    point = HOOK_POINTS[hook]
    keys = {name: name for name in point.takes}
    return bind(profile.graph.bootstrap[hook], point, keys, skip_awaitables=True)


def _files_of(document: Document | None) -> tuple[Path, ...]:
    if document is None:
        return ()
    section, base = document.root.get("plugins"), document.base
    paths = [text_of(said.get("path")) for _, said in section.items() if said.is_mapping] if section else []
    plugins = (base / os.path.expanduser(path) for path in paths if base is not None and path)  # noqa: PTH111
    return (*(folder / Path(name).name for name, folder in document.folders.items()), *plugins)


def _fixed_at_start(old: Generation, new: Generation) -> Iterator[str]:
    """What has changed, but is only read when the runtime starts: sections of the settings, and which channels run."""
    before, after = old.profiles[old.start_profile], new.profiles[new.start_profile]
    brought = {one.plugin for profile in (before, after) for one in profile.graph.bootstrap[CHANNELS]}
    for name in sorted({*brought, "gateway", "tapes"}):
        if before.settings.get(name) != after.settings.get(name):
            yield name
    if before.channels != after.channels:
        yield "channels"


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
