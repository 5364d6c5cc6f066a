"""The framework as a plugin of the reference holds it: its hooks, its channels, its turns.

Handed to a plugin by Bub, it speaks for the profile that lists the plugin. Made by a program, such as a test, it is one
of its own, whose turns are the hooks of its plugin manager, one after another.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import pluggy
import typer
from loguru import logger

from bub_reference import configure
from bub_reference.builtin.hook_impl import BuiltinImpl
from bub_reference.channels.admission import AdmitDecision, SteeringInbox, TurnSnapshot
from bub_reference.channels.base import Channel
from bub_reference.channels.contracts import ChannelRouter, MessageHandler
from bub_reference.envelope import Envelope, content_of, field_of, unpack_batch
from bub_reference.hooks.runtime import HookRuntime
from bub_reference.hooks.specs import BUB_HOOK_NAMESPACE, BubHookSpecs
from bub_reference.model_selection import ModelOptions
from bub_reference.sidecars import TapeSidecar
from bub_reference.surroundings import here
from bub_reference.tape import TapeContext
from bub_reference.turn import TurnResult, TurnState
from bub_reference.utils import maybe_context_manager

OURS = "bub-pipelines"
"""The distribution whose plugins are written for Bub itself."""


class BubFramework:
    """Hooks, channels and turns of one configuration: `config_file`, else `config.yml` in Bub's own folder."""

    def __init__(self, config_file: Path | None = None) -> None:
        self.workspace = Path.cwd().resolve()
        self.config_file = (config_file or here().home / "config.yml").resolve()
        self._plugin_manager = pluggy.PluginManager(BUB_HOOK_NAMESPACE)
        self._plugin_manager.add_hookspecs(BubHookSpecs)
        self._hook_runtime = HookRuntime(self._plugin_manager)
        self._channel_router: ChannelRouter | None = None
        self._tape_store: Any = None
        self._steering_inbox: SteeringInbox | None = None
        self._read_settings()

    def _read_settings(self) -> None:
        configure.load(self.config_file)

    # Its plugins.

    def _load_builtin_hooks(self) -> None:
        self._plugin_manager.register(BuiltinImpl(self), name="builtin")

    def load_hooks(self) -> None:
        """Register the builtin hooks, and the plugins that installed packages bring; one that fails is logged."""
        self._load_builtin_hooks()
        for entry in entry_points(group=BUB_HOOK_NAMESPACE):
            if entry.dist is not None and entry.dist.name == OURS:
                continue
            try:
                plugin = entry.load()
                self._plugin_manager.register(plugin(self) if callable(plugin) else plugin, name=entry.name)
            except Exception as error:  # noqa: BLE001 (code of others: the rest is loaded all the same)
                logger.warning("plugin `{}` does not load: {!r}", entry.name, error)

    def hook_report(self) -> dict[str, list[str]]:
        """The plugins of each hook that any implements."""
        return self._hook_runtime.hook_report()

    def create_cli_app(self) -> typer.Typer:
        """A program of the commands that plugins bring; their `ctx.obj` is this framework."""
        app = typer.Typer(name="bub", add_completion=False, no_args_is_help=True)

        @app.callback()
        def begin(
            context: typer.Context, workspace: Annotated[Path | None, typer.Option("--workspace", "-w")] = None
        ) -> None:
            self.workspace = workspace.resolve() if workspace else self.workspace
            context.obj = self

        self._hook_runtime.call_many_sync("register_cli_commands", app=app)
        return app

    # What its plugins bring.

    def get_channels(self, message_handler: MessageHandler) -> dict[str, Channel]:
        """The channels by name; of two with one name, that of the plugin with the higher priority."""
        found: dict[str, Channel] = {}
        for batch in self._hook_runtime.call_many_sync("provide_channels", message_handler=message_handler):
            for channel in batch or ():
                found.setdefault(channel.name, channel)
        return found

    def get_system_prompt(self, prompt: Any, state: TurnState) -> str:
        """What plugins tell a model first, low priority first."""
        told = self._hook_runtime.call_many_sync("system_prompt", prompt=prompt, state=state)
        return "\n\n".join(text for text in reversed(told) if text)

    def build_tape_context(self) -> TapeContext:
        """What of a tape a model reads. Raises `TypeError` if a plugin gives something else."""
        context = self._hook_runtime.call_first_sync("build_tape_context")
        if not isinstance(context, TapeContext):
            raise TypeError(f"hook.build_tape_context must return a TapeContext, not {type(context).__name__}")
        return context

    def get_tape_sidecars(self) -> tuple[TapeSidecar, ...]:
        """The tapes that lie beside each session's; of two with one name, the first."""
        found: dict[str, TapeSidecar] = {}
        for sidecar in self._hook_runtime.call_many_sync("provide_tape_sidecar"):
            found.setdefault(sidecar.name, sidecar)
        return tuple(found.values())

    async def get_model_options(self, *, session_id: str, workspace: str | Path | None = None) -> ModelOptions:
        """The models that a person may choose from in a session, of all plugins."""
        folder = self.workspace if workspace is None else _folder(workspace)
        given = await self._hook_runtime.call_many("provide_model_options", session_id=session_id, workspace=folder)
        offers = [options for options in given if options is not None]
        current = next((options.current_model for options in offers if options.current_model), None)
        return ModelOptions([model for options in offers for model in options.models], current)

    def collect_onboard_config(self) -> dict[str, Any]:
        """Ask the questions of all plugins; what they answer, laid over each other and checked."""
        collected: dict[str, Any] = {}
        for plugin in [plugin for _, plugin in self._plugin_manager.list_name_plugin()]:
            hook = getattr(plugin, "onboard_config", None)
            told = hook(current_config=collected) if hook is not None else None
            if isinstance(told, Mapping):
                configure.merge(collected, told)
        return configure.validate(collected)

    # What is open while it runs.

    @asynccontextmanager
    async def running(self) -> AsyncIterator[AsyncExitStack]:
        """Have the tape store and the inbox for steering as long as the block lasts."""
        async with AsyncExitStack() as stack:
            store = self._hook_runtime.call_first_sync("provide_tape_store")
            self._tape_store = await maybe_context_manager(store, stack)
            inbox = self._hook_runtime.call_first_sync("provide_steering_inbox")
            self._steering_inbox = await maybe_context_manager(inbox, stack)
            try:
                yield stack
            finally:
                self._tape_store = self._steering_inbox = None

    def get_tape_store(self) -> Any:
        """The tape store while it runs."""
        return self._tape_store

    def get_steering_inbox(self) -> SteeringInbox | None:
        """The inbox for steering while it runs."""
        return self._steering_inbox

    def bind_channel_router(self, router: ChannelRouter | None) -> None:
        """Say who brings replies to channels."""
        self._channel_router = router

    async def dispatch_via_channel_router(self, message: Envelope) -> bool:
        """Hand a reply to who brings replies to channels; False if nobody does."""
        return self._channel_router is not None and await self._channel_router.dispatch_output(message)

    async def quit_via_channel_router(self, session_id: str) -> None:
        """End what runs in a session."""
        if self._channel_router is not None:
            await self._channel_router.quit(session_id)

    # Its turns.

    async def process_inbound(self, inbound: Envelope, stream_output: bool = False) -> TurnResult:
        """Carry a message through the hooks to its replies; `on_error` gets what fails, too."""
        try:
            return await self._answer(inbound, stream_output)
        except Exception as error:
            await self._hook_runtime.notify_error(stage="turn", error=error, message=inbound)
            raise

    async def _answer(self, inbound: Envelope, stream_output: bool) -> TurnResult:
        hooks = self._hook_runtime
        session_id = await self.resolve_session(inbound)
        state = await self.build_state(inbound, session_id)
        prompt = await self.build_prompt(inbound, session_id, state)
        known = {"session_id": session_id, "state": state, "message": inbound}
        output = ""
        try:
            answer = await self._ask_model(inbound, prompt, session_id, state, stream_output)
            output = content_of(inbound) if answer is None else answer
        finally:
            await hooks.call_many("save_state", **known, model_output=output)
        batches = await hooks.call_many("render_outbound", **known, model_output=output)
        replies = [reply for batch in batches for reply in unpack_batch(batch)]
        for reply in replies or [_plain_reply(inbound, session_id, output)]:
            await hooks.call_many("dispatch_outbound", message=reply)
        return TurnResult(session_id, prompt, output, replies or [_plain_reply(inbound, session_id, output)], state)

    async def _ask_model(
        self, inbound: Envelope, prompt: Any, session_id: str, state: TurnState, stream_output: bool
    ) -> str | None:
        if not stream_output:
            return await self._hook_runtime.run_model(prompt=prompt, session_id=session_id, state=state)
        events: Any = await self._hook_runtime.run_model_stream(prompt=prompt, session_id=session_id, state=state)
        if events is None:
            return None
        if self._channel_router is not None:
            events = self._channel_router.wrap_stream(inbound, events)
        return "".join([str(event.data.get("delta", "")) async for event in events if event.kind == "text"])

    async def resolve_session(self, message: Envelope) -> str:
        """The session that a message belongs to: what a plugin says, else its channel and chat."""
        said = await self._hook_runtime.call_first("resolve_session", message=message)
        return str(said or f"{field_of(message, 'channel', 'default')}:{field_of(message, 'chat_id', 'default')}")

    async def build_state(self, message: Envelope, session_id: str) -> TurnState:
        """What plugins know of a turn; of two that say one thing, the one with the higher priority counts."""
        state: TurnState = {
            "_runtime_workspace": str(self.workspace),
            "_runtime_steering_inbox": self.get_steering_inbox(),
        }
        for told in reversed(await self._hook_runtime.call_many("load_state", message=message, session_id=session_id)):
            state.update(told or {})
        return state

    async def build_prompt(self, message: Envelope, session_id: str, state: TurnState) -> Any:
        """What a model is asked: what a plugin says, else the text of the message."""
        given = {"message": message, "session_id": session_id, "state": state}
        return await self._hook_runtime.call_first("build_prompt", **given) or content_of(message)

    async def admit_message(self, *, session_id: str, message: Envelope, turn: TurnSnapshot) -> AdmitDecision | None:
        """What becomes of a message while its session is being answered."""
        given = {"session_id": session_id, "message": message, "turn": turn}
        decision: AdmitDecision | None = await self._hook_runtime.call_first("admit_message", **given)
        return decision


def _folder(said: str | Path) -> Path:
    return Path(said).expanduser().resolve()


def _plain_reply(inbound: Envelope, session_id: str, output: str) -> dict[str, Any]:
    """The reply of a turn that no plugin renders; it has an address if the message had one."""
    address = {name: field_of(inbound, name) for name in ("channel", "chat_id")}
    known = {name: value for name, value in address.items() if value is not None}
    return {"content": output, "session_id": session_id, **known}
