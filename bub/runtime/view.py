"""Views: what a runtime answers about one profile, to the plugins of that profile and to the program around it."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from bub.approval import Approval, Ask, CallNotes, Rules, digest
from bub.asking import Asking
from bub.base.clients.request import ClientRequest
from bub.base.confinement.value import Confinement
from bub.base.counts import Counts
from bub.base.locate import bub_home
from bub.base.surfaces import Surface, Writer
from bub.base.trace import TurnRecord
from bub.bus import BusProtocol, handle_once
from bub.envelope import Envelope
from bub.hook_registry import HookRegistry
from bub.hooks.admission import Steering
from bub.hooks.combining import join_low_to_high
from bub.hooks.implementations import Implementation, implementations_of
from bub.hookspecs import MessageHandler
from bub.pipeline.run.graph import Graph
from bub.pipeline.run.state import OnEvent
from bub.plugins.finding import installed_plugins, survey
from bub.plugins.plugin_set import PluginStatus
from bub.plugins.served import Served
from bub.runtime import bootstrap
from bub.runtime.capacity import count_turns_that_fit
from bub.runtime.generations import Generation
from bub.runtime.message_turn import Complete, MessageTurn
from bub.runtime.result import TurnResult
from bub.runtime.runtime import Runtime
from bub.runtime.sessions import Dispatch
from bub.runtime.snapshot import Profile, Snapshot
from bub.runtime.turn_host import Watcher
from bub.runtime.under_way import TurnView
from bub.secrets.redactor import Redactor
from bub.streaming import AsyncStreamEvents
from bub.tools import ToolBox

_T = TypeVar("_T")


class RuntimeView(TurnView, ABC):
    """A runtime as one `profile` of it sees it; `workspace` is the folder the agent works in."""

    def __init__(self, profile: str, workspace: Path) -> None:
        self.profile = profile
        self.workspace = workspace

    @property
    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """The settings of the profile, references replaced and the environment's own laid over them."""

    @abstractmethod
    def reload(self) -> None:
        """Reload the pipeline file and its plugins, for the turns that begin from then on."""

    @abstractmethod
    def _snapshot(self) -> Snapshot:
        """What is loaded; raises if it is not there yet."""

    @abstractmethod
    def _living(self) -> Runtime:
        """The runtime itself; raises if there is none yet."""

    def _in_use(self) -> Runtime:
        """The runtime, with something loaded that turns can run on."""
        return self._living()

    def _own_generation(self) -> Generation | None:
        """The generation that this is a view of; None if it is a view of whatever is loaded."""
        return None

    def _get_profile(self) -> Profile:
        return self._snapshot().profiles[self.profile]

    # What is loaded.

    @property
    def home(self) -> Path:
        """Bub's own folder: `$BUB_HOME`, else `~/.bub`."""
        return bub_home(os.environ)

    @property
    def profiles(self) -> tuple[str, ...]:
        """The profiles that can get a turn: the one chosen at start, those of routes, and those sessions may choose."""
        return tuple(self._snapshot().profiles)

    def seen_by(self, profile: str) -> RuntimeView:
        """The same runtime as the plugins of another of its `profiles` see it: with its settings, plugins and tools."""
        view = self._snapshot().profiles[profile].view
        assert isinstance(view, RuntimeView), "the loader makes the views of profiles"
        return view

    @property
    def graph(self) -> Graph:
        """The compiled pipeline of the profile."""
        return self._get_profile().graph

    @property
    def tools(self) -> ToolBox:
        """The tools that this profile's plugins provide, and which of them it may use."""
        return self._get_profile().tools

    @property
    def served(self) -> Served:
        """The servers that this profile may use, and the tools that are known of them by now."""
        return self._get_profile().served

    @property
    def budget(self) -> Mapping[str, int]:
        """What the profile may use: its `budget:`."""
        return self._get_profile().budget

    @property
    def rules(self) -> Rules:
        """What a yes to a tool of this profile is bound to, and who may give it."""
        return self._get_profile().rules

    def rebind(self, approval: Approval) -> Approval:
        """What an approval would be bound to now: it counts no longer if that differs."""
        profile = self._snapshot().profiles.get(approval.profile)
        tool = profile.tools.tools.get(approval.tool) if profile is not None else None
        if profile is None or tool is None:
            return replace(approval, schema="", rules="", approvers=())
        rules = profile.rules
        return replace(approval, schema=digest(tool.parameters), rules=rules.digest, approvers=rules.approvers)

    @property
    def confinement(self) -> Confinement | None:
        """What commands may reach: the profile's `reach:`, None if it does not say."""
        return self._get_profile().confinement

    @property
    def own_files(self) -> tuple[Path, ...]:
        """The files that say what the agent may do: the pipeline file, those it extends, and plugins with a `path`."""
        return self._snapshot().own_files

    @property
    def pipeline_file(self) -> Path | None:
        """The pipeline file itself; None if it is one of Bub's own."""
        return self._snapshot().file

    @property
    def open_channels(self) -> tuple[str, ...] | None:
        """The channels that the profile opens: its `channels:`, None if it does not say."""
        return self._get_profile().channels

    def hook_report(self) -> dict[str, list[str]]:
        """Return each implemented hook with its plugins in the order they are asked (BEHAVIOURS H23)."""
        return self._get_profile().hooks.hook_report()

    def implementations(self, name: str) -> tuple[Implementation, ...]:
        """What the plugins bring for one hook point, in the order they are asked."""
        return implementations_of(self._get_profile().plugins.manager, name)

    def hook_kind(self, name: str) -> str:
        """The kind that the pipeline gives a hook, else the usual one of its point."""
        return bootstrap.kind_of(self._get_profile(), name)

    def plugin_report(self) -> tuple[PluginStatus, ...]:
        """What became of every plugin that is listed or installed."""
        return survey(self._get_profile().plugins, installed_plugins())

    @property
    def plugin_loops(self) -> dict[str, str]:
        """The plugins that run on a loop of their own, each with the name of what that is, such as asyncio."""
        return {name: host.loop for name, host in self._get_profile().plugins.hosts.items()}

    @property
    def plugin_problems(self) -> dict[str, str]:
        """What is wrong by now with plugins that run on a loop of their own, such as one that blocks it."""
        snapshots = [generation.snapshot for generation in self._living().loaded.kept]
        problems = {name: host.problem for snapshot in snapshots for name, host in snapshot.hosts}
        return {name: problem for name, problem in problems.items() if problem is not None}

    # Hooks outside of turns.

    def get_channels(self, message_handler: MessageHandler) -> dict[str, Any]:
        """The channels by name; of two with one name, that of the higher priority counts (BEHAVIOURS C1, H32)."""
        return {name: channel for name, (_, channel) in self.get_channels_by_plugin(message_handler).items()}

    def get_channels_by_plugin(self, message_handler: MessageHandler) -> dict[str, tuple[str, Any]]:
        """The channels by name as `get_channels` gives them, each behind the plugin that brings it."""
        return bootstrap.provide_channels(self._get_profile(), message_handler)

    def when_reloaded(self, tell: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `tell` after every reload until the block is left, in the thread that reloads."""
        return self._living().when_reloaded(tell)

    def get_system_prompt(self, prompt: Any, state: dict[str, Any]) -> str:
        """The system prompt: the fragments of all plugins, low priority first, a blank line between (T34)."""
        hooks = self._get_profile().hooks
        return join_low_to_high(hooks.call_many_sync("system_prompt", prompt=prompt, state=state))

    def build_tape_context(self) -> Any:
        """What the first plugin gives as the context that tapes are read with, or None."""
        return self._get_profile().hooks.call_first_sync("build_tape_context")

    async def call_model(self, request: Mapping[str, Any], session_id: str) -> AsyncStreamEvents | None:
        """The answer of the first plugin that brings the model itself; None if Bub's own providers are meant."""
        return await bootstrap.call_model(self._get_profile(), request, session_id)

    async def get_model_options(self, session_id: str) -> list[str]:
        """The names of the models that plugins offer for a session (`provide_model_options`)."""
        return await bootstrap.provide_model_options(self._get_profile(), session_id, self.workspace)

    def collect_onboard_config(
        self,
        current_config: Mapping[str, Any] | None = None,
        *,
        ask: Asking | None = None,
        only: Container[str] | None = None,
    ) -> dict[str, Any]:
        """The configuration with every plugin's fragment laid over it (`bootstrap.collect_onboard_config`)."""
        return bootstrap.collect_onboard_config(self._get_profile(), current_config, ask=ask, only=only)

    def create_bus(self) -> BusProtocol:
        """A bus: that of the first plugin that provides one, else a `MessageBus` (BEHAVIOURS U4)."""
        return bootstrap.provide_bus(self._get_profile())

    # What lives.

    @property
    def counts(self) -> Counts:
        """What has happened so far, in numbers."""
        return self._living().counts

    @property
    def mask(self) -> Redactor:
        """What covers the secrets of the environment and of all settings if a turn is kept or shown."""
        return self._living().mask

    @property
    def registry(self) -> HookRegistry:
        """The registry of handlers that come and go while it runs; one for all profiles, and a reload keeps it.

        They are called before the plugins' implementations of the same point. It knows the void, modifying and
        claiming points of the pipeline, an observer one as void, and those of Ethos.
        """
        return self._in_use().loaded.registry

    def get_tape_store(self) -> Any:
        """The tape store while the runtime is open, else None (BEHAVIOURS T36)."""
        return self._living().loaded.tape_store

    async def shared(self, factory: Callable[[], AbstractAsyncContextManager[_T]]) -> _T:
        """What `factory` opens, opened once while the runtime is open; outside of it, for the turn under way.

        For plugins that need something costly, such as an HTTP client. It must hold no nursery open.
        """
        return await self._living().shared(factory, self._own_generation())

    # Turns.

    async def process_inbound(
        self,
        message: Envelope,
        stream_output: bool = False,
        on_event: OnEvent | None = None,
        *,
        ask: Ask | None = None,
        dispatch: Dispatch | None = None,
        steering: Steering | None = None,
        surface: Surface = Surface.PROGRAM,
    ) -> TurnResult:
        """Carry one message through the pipeline to its replies (`Turns.process_inbound`)."""
        return await self._in_use().turns.process_inbound(
            message, stream_output, on_event, ask=ask, dispatch=dispatch, steering=steering, surface=surface
        )

    async def handle_bus_once(self, bus: BusProtocol, timeout_seconds: float | None = None) -> TurnResult | None:
        """Take one message off a bus, carry it through the pipeline and put its replies onto the bus (BEHAVIOURS U6).

        None when none came within `timeout_seconds`: 0 does not wait, None waits as long as it takes. A message whose
        turn fails is put aside and the error raised; one whose turn is cancelled is the next one again (U7).
        """
        return await handle_once(bus, partial(self.process_inbound, surface=Surface.BUS), timeout_seconds)

    def begin(
        self,
        message: Envelope,
        *,
        on_event: OnEvent | None = None,
        ask: Ask | None = None,
        dispatch: Dispatch | None = None,
        steering: Steering | None = None,
        surface: Surface = Surface.PROGRAM,
        complete: Complete | None = None,
        notes: CallNotes | None = None,
        writers: Callable[[], Sequence[Writer]] | None = None,
        profile: str | None = None,
        request: ClientRequest | None = None,
    ) -> MessageTurn:
        """A turn that its caller takes from step to step, as channels do (`Turns.begin`)."""
        return self._in_use().turns.begin(
            message,
            on_event=on_event,
            ask=ask,
            dispatch=dispatch,
            steering=steering,
            surface=surface,
            complete=complete,
            notes=notes,
            writers=writers,
            profile=profile,
            request=request,
        )

    def limit_turns(self, most: int | None) -> None:
        """Let so many turns run at once from now on, as many as fit if None; the others wait."""
        self._in_use().turns.sessions.set_limit(count_turns_that_fit() if most is None else most)

    def profile_of(self, message: Envelope) -> str:
        """The name of the profile that a message is routed to."""
        return self._in_use().turns.profile_of(message)

    @property
    def last_result(self) -> TurnResult | None:
        """The result of the turn that ended last, also if it failed: the values up to there."""
        return self._living().turns.last_result

    @property
    def last_trace(self) -> Sequence[TurnRecord]:
        """What became of each stage of the turn that ended last, also if it failed."""
        return self.last_result.trace if self.last_result is not None else ()

    def watch(self, watcher: Watcher) -> AbstractContextManager[None]:
        """Let somebody see each turn of the runtime that begins and ends, until the block is left."""
        return self._living().turns.watch(watcher)

    @property
    def turns_under_way(self) -> Collection[MessageTurn]:
        """The turns of the runtime that are not over, those that wait included, in the order they began."""
        return self._living().turns.under_way.keys()
